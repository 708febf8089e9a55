//! Why a benchmark could not run.

use super::connection::Lost;
use super::target::TargetError;
use crate::config::ConfigError;
use crate::store::keys::PrefixError;
use crate::store::{RedisUrlError, StoreError};

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
    #[error("a script answered `{answer}` instead of `{word}`")]
    Script { word: &'static str, answer: String },
    #[error("holds live an hour: {what} may take {minutes} minutes at most, warm-up included")]
    TooLong { what: &'static str, minutes: u64 },
    #[error("what Redis is sent cannot be watched")]
    Monitor(#[source] std::io::Error),
    #[error("--redis-url or BUDGET_REDIS_URL is required")]
    NoRedisUrl,
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Settings(#[from] clap::Error),
    #[error("cannot start what is to be measured")]
    Stack(#[source] std::io::Error),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("--redis-url")]
    RedisUrl(#[from] RedisUrlError),
    #[error("--key-prefix")]
    KeyPrefix(#[from] PrefixError),
    #[error(transparent)]
    Metrics(#[from] prometheus::Error),
    #[error("the load generator failed")]
    Generator(#[source] std::io::Error),
}
