//! Why a benchmark could not run.

use std::io;

use crate::store::keys::PrefixError;
use crate::store::{RedisUrlError, StoreError};
use crate::tools::http::NoResponse;

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub(super) enum BenchError {
    #[error("--admin-key or BUDGET_ADMIN_KEY is required: the benchmark makes a tenant of its own")]
    NoAdminKey,
    #[error("a key holds characters that a header must not hold")]
    Key,
    #[error("{step}: the service cannot be reached")]
    Unreachable {
        step: &'static str,
        #[source]
        source: NoResponse,
    },
    #[error("{step}: the service responded {status} {code}: {message}")]
    Refused {
        step: &'static str,
        status: u16,
        code: String,
        message: String,
    },
    #[error("{step}: the response is not what the protocol requires")]
    Unreadable { step: &'static str },
    #[error("a script replied `{reply}` instead of `{expected}`")]
    Script {
        expected: &'static str,
        reply: String,
    },
    #[error("holds live an hour: {what} may take {minutes} minutes at most, warm-up included")]
    TooLong { what: &'static str, minutes: u64 },
    #[error("the commands that Redis receives cannot be counted")]
    Monitor(#[source] io::Error),
    #[error("--redis-url or BUDGET_REDIS_URL is required")]
    NoRedisUrl,
    #[error("cannot start what is to be measured")]
    Stack(#[source] io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("--redis-url")]
    RedisUrl(#[from] RedisUrlError),
    #[error("--key-prefix")]
    KeyPrefix(#[from] PrefixError),
    #[error(transparent)]
    Metrics(#[from] prometheus::Error),
    #[error("the load generator failed")]
    Generator(#[source] io::Error),
}
