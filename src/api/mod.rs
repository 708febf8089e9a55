//! HTTP.

pub mod ops;

use axum::Router;

use crate::config::ServeConfig;
use crate::serve::Planes;
use crate::store::Store;

/// The routers of both planes, on one address or two.
pub fn planes(config: &ServeConfig, _store: &Store) -> Planes {
    Planes {
        api: Router::new(),
        admin: config.http.admin_listen.map(|_| Router::new()),
    }
}
