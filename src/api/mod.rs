//! HTTP: the whole route table, and the order of the layers around it.

pub mod admin;
pub mod body;
pub mod cursor;
pub mod dialect;
pub mod errors;
pub mod extract;
pub mod identify;
pub mod openapi;
pub mod ops;
pub mod query;
pub mod refusals;
pub mod runtime;
pub mod sort;
pub mod state;
pub mod trace;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};

use crate::config::ServeConfig;
use crate::serve::Planes;
use crate::store::Store;
use runtime::{handlers, reads};
use state::AppState;

/// The routers of both planes, on one address or two.
pub fn planes(config: &ServeConfig, store: &Store) -> Planes {
    let state = AppState::new(config, store);
    let wrap = |router| trace::outermost(router, config.store.dialect, &config.http.cors_origins);
    Planes {
        api: wrap(runtime_plane(&state).merge(openapi::page::router(config.store.dialect))),
        admin: config.http.admin_listen.map(|_| wrap(Router::new())),
    }
}

/// What agents and their gateways call.
fn runtime_plane(state: &AppState) -> Router {
    Router::new()
        .route("/v1/decide", post(handlers::decide))
        .route("/v1/reservations", get(reads::list).post(handlers::reserve))
        .route("/v1/reservations/{reservation_id}", get(reads::get))
        .route(
            "/v1/reservations/{reservation_id}/commit",
            post(handlers::commit),
        )
        .route(
            "/v1/reservations/{reservation_id}/release",
            post(handlers::release),
        )
        .route(
            "/v1/reservations/{reservation_id}/extend",
            post(handlers::extend),
        )
        .route("/v1/events", post(handlers::post_event))
        .route("/v1/balances", get(reads::balances))
        .method_not_allowed_fallback(identify::no_such_method)
        .fallback(identify::no_such_path)
        .layer(from_fn_with_state(state.clone(), identify::runtime))
        .with_state(state.clone())
}
