//! Why a script gave no outcome.

use crate::driver::error::StoreError;
use crate::store::signature::{Refused, Signature};

/// Why a script gave no outcome.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScriptError {
    /// It refused; it has written nothing, save the event of a denial.
    #[error("script `{}` refused: {}", .1.script.name(), .0.word())]
    Refused(Refused, &'static Signature),
    /// Redis did not reply, or its reply cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The outcome of a script that refuses its caller nothing.
pub(crate) fn outcome<T>(outcome: Result<T, ScriptError>) -> Result<T, StoreError> {
    outcome.map_err(|error| match error {
        ScriptError::Refused(refused, signature) => refused.unexpected(signature),
        ScriptError::Store(error) => error,
    })
}

/// The outcome of a script under a lease; `None` where another dispatcher holds the lease by now.
pub(crate) fn unless_fenced<T>(outcome: Result<T, ScriptError>) -> Result<Option<T>, StoreError> {
    match outcome {
        Err(ScriptError::Refused(Refused::Fenced, _)) => Ok(None),
        other => self::outcome(other).map(Some),
    }
}
