//! Why a configuration is refused.

/// Why a configuration is refused. Names the variables; never holds a secret.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A value that its parser accepted, but that is invalid.
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

impl ConfigError {
    /// The value of a variable is refused. The reason must not repeat a secret.
    pub(crate) fn value(variable: &'static str, reason: impl ToString) -> Self {
        let reason = reason.to_string();
        Self::Value { variable, reason }
    }

    /// Two variables cannot be combined.
    pub(crate) fn contradiction(
        first: &'static str,
        second: &'static str,
        reason: &'static str,
    ) -> Self {
        Self::Contradiction {
            first,
            second,
            reason,
        }
    }
}
