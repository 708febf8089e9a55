//! HTTP: the whole route table, and the order of the layers around it.

pub mod access_log;
pub mod admin;
pub mod auth;
pub mod body;
pub mod cursor;
pub mod dialect;
pub mod errors;
pub mod extract;
pub mod list;
pub mod openapi;
pub mod ops;
pub mod query;
pub mod refusals;
pub mod runtime;
pub mod sort;
pub mod state;
pub mod trace;

use axum::Router;
use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use tower::ServiceExt;

use crate::config::ServeConfig;
use crate::egress::{Egress, Resolver};
use crate::serve::Planes;
use crate::store::Store;
use runtime::{handlers, reads};
use state::AppState;

/// The routers of both planes, on one address or two.
pub fn planes(config: &ServeConfig, store: &Store) -> Planes {
    let egress = Egress::new(Resolver::system(), &config.webhooks.roots);
    planes_reaching(config, store, egress)
}

/// The same with a way out of the caller's choice.
pub fn planes_reaching(config: &ServeConfig, store: &Store, egress: Egress) -> Planes {
    let state = AppState::new(config, store, egress);
    let dialect = config.store.dialect;
    let wrap = |router: Router| {
        let router = router.merge(openapi::router(dialect));
        trace::outermost(router, dialect, &config.http.cors_origins)
    };
    let apart = config.http.admin_listen.is_some();
    let (operators, no_operation) = (admin::routes(&state), admin::nowhere(&state));
    let agents = runtime_plane(&state)
        .merge(admin::tenant_routes(&state))
        .merge(admin::introspection(&state));
    let no_path = runtime_nowhere(&state);
    if apart {
        let operators = operators.merge(admin::introspection(&state));
        return Planes {
            api: wrap(agents.fallback_service(no_path)),
            admin: Some(wrap(operators.fallback_service(no_operation))),
            auth_failures: state.auth_failures.clone(),
        };
    }
    let neither = move |request: Request| {
        let of_operators = crate::api::auth::admin::is_admin_path(request.uri().path());
        let plane = if of_operators {
            no_operation.clone()
        } else {
            no_path.clone()
        };
        plane.oneshot(request)
    };
    Planes {
        api: wrap(agents.merge(operators).fallback(neither)),
        admin: None,
        auth_failures: state.auth_failures.clone(),
    }
}

/// Says what an operator should know of at each start.
pub async fn warn_at_start(config: ServeConfig, store: Store) {
    let egress = Egress::new(Resolver::system(), &config.webhooks.roots);
    let state = AppState::new(&config, &store, egress);
    if let Err(error) = state.webhooks.warn_of_open_security().await {
        tracing::debug!(error = %error, "the security configuration of webhooks cannot be read yet: {error}");
    }
}

/// What agents and their gateways call. What is not among it is up to [`runtime_nowhere`].
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
        .method_not_allowed_fallback(crate::api::auth::runtime::no_such_method)
        .route_layer(from_fn_with_state(
            state.clone(),
            crate::api::auth::runtime::runtime,
        ))
        .route("/v1/events", admin::own_events(state))
        .with_state(state.clone())
}

fn runtime_nowhere(state: &AppState) -> Router {
    Router::new()
        .fallback(crate::api::auth::runtime::no_such_path)
        .layer(from_fn_with_state(
            state.clone(),
            crate::api::auth::runtime::runtime,
        ))
        .with_state(state.clone())
}
