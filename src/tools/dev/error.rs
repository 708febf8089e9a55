//! Why the development stack could not start, or stopped.

use std::io;
use std::time::Duration;

use crate::config::ConfigError;
use crate::serve::ServeError;
use crate::tools::client_error::CallError;

/// Why the development stack could not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum DevError {
    /// The data folder cannot be used, or the private Redis does not start or has ended.
    #[error(transparent)]
    Data(#[from] io::Error),
    /// The API.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The data was started in another dialect.
    #[error(
        "the data in {place} speaks the dialect `{found}`: start with --dialect {found}, or keep the data of another \
         dialect apart: {remedy}"
    )]
    OtherDialect {
        /// Where the data is.
        place: String,
        /// Its dialect.
        found: String,
        /// How to use other data.
        remedy: String,
    },
    /// The API did not become ready.
    #[error("the API did not become ready within {0:?}")]
    NotReady(Duration),
    /// The API cannot be reached, or refused the demo tenant.
    #[error(transparent)]
    Call(#[from] CallError),
}

impl From<ConfigError> for DevError {
    fn from(error: ConfigError) -> Self {
        Self::Serve(error.into())
    }
}
