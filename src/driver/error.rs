//! Errors of the driver, by what the caller should do next.

use redis::{RedisError, ServerError};

use crate::domain::evidence::EvidenceRef;
use crate::domain::ids::TenantId;
use crate::domain::record::RecordError;
use crate::domain::refusal::Refusal;

pub use super::identity::OtherData;

/// Why an operation was not done: the service says no, Redis failed, or a record cannot be read. The causes are in `source()`.
#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    /// Redis gave no reply in time. A later retry may succeed.
    #[error("Redis is unavailable: {0}")]
    Unavailable(#[from] Unavailable),
    /// Redis is at `maxmemory`, or so near that nothing new is stored. Nothing was done.
    #[error("Redis is out of memory, or close to it")]
    Full,
    /// A script raised an error: a corrupt record or a mistake in the script.
    #[error("script `{script}` failed at {place}: {message}")]
    Script {
        /// Name of the script, without `.lua`.
        script: &'static str,
        /// File and line below `lua/`, as they are in the repository.
        place: String,
        /// The error message of Redis.
        message: String,
    },
    /// A script replied with something that its caller does not know: a bug.
    #[error("script `{script}` replied {found} at position {position} instead of {expected}")]
    Reply {
        /// Name of the script, without `.lua`.
        script: &'static str,
        /// Index in the reply array, 0 is the status word.
        position: usize,
        /// The expected value.
        expected: &'static str,
        /// The value found, shortened.
        found: String,
    },
    /// A command got an error reply.
    #[error("Redis refused a command: {code} {detail}")]
    ErrorReply {
        /// The error code, such as `WRONGTYPE`.
        code: String,
        /// The rest of the message.
        detail: String,
    },
    /// The service says no; nothing was changed.
    #[error("refused: {0:?}")]
    Refusal(Refusal),
    /// The same, and evidence of it will be signed.
    #[error("refused: {0:?}")]
    Attested(Refusal, Box<EvidenceRef>),
    /// A field of a record cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A record that the operation depends on cannot be read; named by its key.
    #[error("the record `{0}` is corrupt")]
    Corrupt(String),
    /// Any of these; the audit log of this tenant records it.
    #[error("{1}")]
    About(TenantId, #[source] Box<StoreError>),
    /// The stored deployment does not fit this binary or its configuration; says what to do.
    #[error("{0}")]
    Deployment(String),
    /// The deployment speaks another dialect, and clients of one do not understand the other.
    #[error(
        "the data under prefix `{prefix}` was started with dialect `{found}`, this process runs `{own}`: \
         set BUDGET_DIALECT={found}, or choose another BUDGET_KEY_PREFIX"
    )]
    OtherDialect {
        /// The key prefix.
        prefix: String,
        /// The dialect of the data.
        found: String,
        /// The dialect of this process.
        own: String,
    },
}

impl StoreError {
    /// The refusal, if the service says no and nothing was changed.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refusal(refusal) | Self::Attested(refusal, _) => Some(refusal),
            Self::About(_, error) => error.refusal(),
            _ => None,
        }
    }

    /// Whether a key holds another type than the command or script expects.
    #[must_use]
    pub fn is_wrong_type(&self) -> bool {
        match self {
            Self::ErrorReply { code, .. } => code == "WRONGTYPE",
            Self::Script { message, .. } => message.starts_with("WRONGTYPE "),
            _ => false,
        }
    }

    /// The same, with the tenant that the operation is about.
    #[must_use]
    pub fn about(self, tenant: &TenantId) -> Self {
        match self {
            Self::About(..) => self,
            error => Self::About(tenant.clone(), Box::new(error)),
        }
    }
}

impl<R: Into<Refusal>> From<R> for StoreError {
    fn from(refusal: R) -> Self {
        Self::Refusal(refusal.into())
    }
}

/// Why there is no reply. After [`Unavailable::NoReply`], [`Unavailable::ReplyLost`], [`Unavailable::TooFewReplicas`] and
/// [`Unavailable::Interrupted`] the effect is unknown; the other causes guarantee that nothing was done.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Unavailable {
    /// No connection was established before the deadline.
    #[error("no connection to {node} in time")]
    NotConnected {
        /// Address of the node, or its description.
        node: String,
        /// The last failed attempt.
        #[source]
        source: Option<RedisError>,
    },
    /// Redis does not hold the data that the process started with.
    #[error(transparent)]
    OtherData(#[from] OtherData),
    /// Earlier calls of the request used up its deadline, or it passed while calls before this one were in flight.
    #[error("the request's deadline for Redis was over before it could be sent")]
    TimeIsUp,
    /// The request was sent and the deadline passed without a reply.
    #[error("{node} did not reply in time")]
    NoReply {
        /// Address of the node.
        node: String,
    },
    /// The request was sent, then the connection broke.
    #[error("the connection to {node} broke before the reply")]
    ReplyLost {
        /// Address of the node.
        node: String,
        /// The error of the connection.
        #[source]
        source: RedisError,
    },
    /// It was done, but fewer replicas have it than `BUDGET_REDIS_WAIT` demands, so a failover may lose it. The same request
    /// under its idempotency key gets its response once they have it.
    #[error("only {reached} of {wanted} replicas of {node} had the write in time")]
    TooFewReplicas {
        /// Address of the node.
        node: String,
        /// How many replicas have it.
        reached: i64,
        /// How many must.
        wanted: u16,
    },
    /// A member of a batch raised an error after its record was written. The same request under its idempotency key gets its
    /// response.
    #[error("it failed after it was done: {error}")]
    Interrupted {
        /// The error of the script.
        error: String,
    },
    /// Redis refused to run the command until the deadline passed.
    #[error("{node} refused to run the command: {refusal}")]
    NotReady {
        /// Address of the node.
        node: String,
        /// The last refusal: `LOADING`, `READONLY`, `CLUSTERDOWN`, `TRYAGAIN`, `MISCONF` and the like.
        refusal: ServerError,
    },
}

impl Unavailable {
    /// No connection to a node of this description, for a reason that is not known.
    pub(crate) fn not_connected(node: impl Into<String>) -> Self {
        Self::NotConnected {
            node: node.into(),
            source: None,
        }
    }

    /// Keeps the cause of a failure to connect for the next one, which may have none because the deadline cut it short.
    pub(crate) fn with_cause(mut self, last: &mut Option<RedisError>) -> Self {
        if let Self::NotConnected { source, .. } = &mut self {
            match source {
                Some(cause) => *last = Some(cause.clone()),
                None => source.clone_from(last),
            }
        }
        self
    }

    /// Whether the command may have run although no reply came.
    pub fn effect_unknown(&self) -> bool {
        match self {
            Self::NoReply { .. }
            | Self::ReplyLost { .. }
            | Self::TooFewReplicas { .. }
            | Self::Interrupted { .. } => true,
            Self::NotConnected { .. }
            | Self::NotReady { .. }
            | Self::OtherData(_)
            | Self::TimeIsUp => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn an_error_about_a_tenant_keeps_its_causes() {
        let tenant = TenantId::parse("acme").expect("a tenant");
        let failed = StoreError::Corrupt("key".to_owned()).about(&tenant);
        let cause = failed.source().expect("a cause");
        assert_eq!(cause.to_string(), failed.to_string());
    }
}
