//! Why a benchmark could not run.

use std::io;

use crate::config::ConfigError;
use crate::store::StoreError;
use crate::tools::client_error::CallError;

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub(super) enum BenchError {
    #[error("--admin-key or BUDGET_ADMIN_KEY is required: the benchmark makes a tenant of its own")]
    NoAdminKey,
    #[error("--redis-url or BUDGET_REDIS_URL is required")]
    NoRedisUrl,
    #[error("holds live an hour: {what} may take {minutes} minutes at most, warm-up included")]
    TooLong { what: &'static str, minutes: u64 },
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("the tenant, its key or its scope cannot be used without HTTP")]
    Tenant,
    #[error("a script replied `{reply}` instead of `{expected}`")]
    Script {
        expected: &'static str,
        reply: String,
    },
    #[error("the views of all tenants did not show a new tenant in time")]
    LateViews,
    #[error("the commands that Redis receives cannot be counted")]
    Monitor(#[source] io::Error),
    #[error("the service or its Redis cannot be started")]
    Stack(#[source] io::Error),
    #[error("the load generator failed")]
    Generator(#[source] io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Config(#[from] ConfigError),
}
