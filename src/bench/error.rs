//! Why a benchmark could not run.

use super::connection::Lost;

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub(super) enum BenchError {
    #[error("--admin-key or BUDGET_ADMIN_KEY is required: the benchmark makes a tenant of its own")]
    NoAdminKey,
    #[error("a key holds characters that no header may hold")]
    Key,
    #[error("the path of the URL cannot be used")]
    Path(#[from] hyper::http::uri::InvalidUri),
    #[error("{step}: the service cannot be reached")]
    Unreachable {
        step: &'static str,
        #[source]
        source: Lost,
    },
    #[error("{step}: the service answered {status} {code}: {message}")]
    Refused {
        step: &'static str,
        status: u16,
        code: String,
        message: String,
    },
    #[error("{step}: the answer is not what the protocol says")]
    Unreadable { step: &'static str },
    #[error("the load generator failed")]
    Generator(#[source] std::io::Error),
}
