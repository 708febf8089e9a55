//! What can go wrong between a caller and Redis, seen by what the caller should do next.

use redis::{RedisError, ServerError};

/// A failed call of the store. It knows nothing of HTTP; the causes stay in `source()`.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Redis could not answer in time. Asking again later may help.
    #[error("Redis is unavailable: {0}")]
    Unavailable(#[from] Unavailable),
    /// Redis is at `maxmemory`, so a script that would take more of it was refused before it ran.
    #[error("Redis is out of memory")]
    Full,
    /// A script raised an error: a corrupt record or a mistake in the script.
    #[error("script `{script}` failed at {place}: {message}")]
    Script {
        /// Name of the script, without `.lua`.
        script: &'static str,
        /// File and line below `lua/`, as they are in the repository.
        place: String,
        /// What Redis said.
        message: String,
    },
    /// A script answered with something that its caller does not know: a bug.
    #[error("script `{script}` answered {found} at position {position}, where {expected} belongs")]
    Reply {
        /// Name of the script, without `.lua`.
        script: &'static str,
        /// Index in the reply array, 0 is the status word.
        position: usize,
        /// What would have been right.
        expected: &'static str,
        /// What came instead, shortened.
        found: String,
    },
    /// A plain command was answered with an error.
    #[error("Redis refused a command: {code} {detail}")]
    Refused {
        /// The error code, such as `WRONGTYPE`.
        code: String,
        /// The rest of the message.
        detail: String,
    },
    /// The stored deployment does not fit this binary or its configuration.
    #[error(transparent)]
    Deployment(#[from] DeploymentError),
}

/// Why there is no answer. Nothing is known about the effect after [`Unavailable::NoReply`] and
/// [`Unavailable::ReplyLost`]; the other causes guarantee that nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// No connection could be had before the deadline.
    #[error("no connection to {node} in time")]
    NotConnected {
        /// Address of the node, or what was looked for.
        node: String,
        /// The last failed attempt.
        #[source]
        source: Option<RedisError>,
    },
    /// Earlier calls of the same request took all the time that it had.
    #[error("Redis has taken all the time that the request had")]
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
        /// What broke.
        #[source]
        source: RedisError,
    },
    /// Redis refused to run the request, and still did when the deadline passed.
    #[error("{node} refused to run the request: {refusal}")]
    NotReady {
        /// Address of the node.
        node: String,
        /// The last refusal: `LOADING`, `READONLY`, `CLUSTERDOWN`, `TRYAGAIN`, `MISCONF` and the like.
        refusal: ServerError,
    },
}

impl Unavailable {
    /// Whether the request may have been carried out although no reply came.
    pub fn effect_unknown(&self) -> bool {
        match self {
            Self::NoReply { .. } | Self::ReplyLost { .. } => true,
            Self::NotConnected { .. } | Self::NotReady { .. } | Self::TimeIsUp => false,
        }
    }
}

/// The deployment found in Redis is not the one that this process was configured for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeploymentError {
    /// A later release has already written here.
    #[error(
        "the data under prefix `{prefix}` has layout {found}, this binary knows layouts up to {known}: \
         run a release that knows it, or choose another BUDGET_KEY_PREFIX"
    )]
    NewerLayout {
        /// Key prefix.
        prefix: String,
        /// Layout found.
        found: i64,
        /// Newest layout of this binary.
        known: i64,
    },
    /// The number of partitions is fixed for the life of a deployment.
    #[error(
        "the data under prefix `{prefix}` has {found} partitions, this binary uses {known}: \
         choose another BUDGET_KEY_PREFIX or the Redis that belongs to this deployment"
    )]
    Partitions {
        /// Key prefix.
        prefix: String,
        /// Partitions found.
        found: i64,
        /// Partitions of this binary.
        known: i64,
    },
    /// Clients of one dialect do not understand the other.
    #[error(
        "the data under prefix `{prefix}` was started with dialect `{found}`, this process runs `{configured}`: \
         set BUDGET_DIALECT={found}, or choose another BUDGET_KEY_PREFIX"
    )]
    Dialect {
        /// Key prefix.
        prefix: String,
        /// Dialect found.
        found: String,
        /// Dialect of this process.
        configured: String,
    },
    /// The record of the deployment cannot be read.
    #[error(
        "the record `{prefix}:meta` is damaged ({what}): restore it from a backup; without it no id can be derived"
    )]
    Damaged {
        /// Key prefix.
        prefix: String,
        /// The field that cannot be read.
        what: &'static str,
    },
}
