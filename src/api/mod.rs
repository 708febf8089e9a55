//! HTTP. [`operations`] is the index of operations, [`runtime`] and [`admin`] hold their handlers; the other modules are shared
//! by all.

pub mod admin;
pub mod auth;
pub mod body;
pub mod dialect;
pub mod errors;
pub mod evidence;
pub mod extract;
pub mod list;
pub mod openapi;
pub mod operation;
pub mod operations;
pub mod probes;
pub mod query;
pub mod refusals;
pub mod response;
mod routes;
pub mod runtime;
pub mod state;
pub mod trace;

use crate::config::ServeConfig;
use crate::egress::Egress;
use crate::store::Store;
pub use routes::{Planes, measured};
use state::{AppState, Handles};

/// The routers of both planes, on one address or two.
pub fn planes(config: &ServeConfig, store: &Store, egress: Egress) -> Planes {
    let state = Handles::shared(config, store, egress);
    let apart = config.http.admin_listen.is_some();
    routes::serve_planes(state, &config.http.cors_origins, apart)
}

/// Warns of what an operator should know at each start.
pub async fn warn_at_start(state: AppState) {
    if let Err(error) = state.webhooks.warn_of_open_security().await {
        tracing::debug!(error = %error, "the security configuration of webhooks cannot be read yet: {error}");
    }
}
