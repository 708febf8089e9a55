//! Why a configuration is refused.

/// Why a configuration is refused. Names the variables; never holds a secret.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A value that the parser of a single setting accepted.
    #[error("{variable}: {reason}")]
    Value {
        /// The environment variable.
        variable: &'static str,
        /// Why it is refused.
        reason: String,
    },
    /// Two settings that cannot be combined.
    #[error("{first} and {second} contradict each other: {reason}")]
    Contradiction {
        /// One variable.
        first: &'static str,
        /// The other.
        second: &'static str,
        /// Why they cannot be combined.
        reason: &'static str,
    },
}
