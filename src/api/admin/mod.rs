//! The admin plane: what operators and dashboards call.

pub mod api_keys;
pub mod audit;
pub mod budgets;
pub mod bulk_actions;
pub mod credentials;
pub mod events;
pub mod extract;
pub mod overview;
pub mod policies;
pub mod refusals;
mod shown;
pub mod tenants;
pub mod webhooks;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, get, patch, post};

use super::state::AppState;
use crate::api::auth::runtime::{no_such_method, no_such_path};
use bulk_actions::handlers as bulk;
use webhooks::handlers as webhook;

/// The operations. What is not among them is up to [`nowhere`].
pub fn routes(state: &AppState) -> Router {
    Router::new()
        .route(
            "/v1/admin/tenants",
            get(crate::api::admin::tenants::handlers::list_tenants)
                .post(crate::api::admin::tenants::handlers::create_tenant),
        )
        .route(
            "/v1/admin/tenants/{tenant_id}",
            get(crate::api::admin::tenants::handlers::get_tenant)
                .patch(crate::api::admin::tenants::update::update_tenant),
        )
        .route(
            "/v1/admin/api-keys",
            get(api_keys::handlers::list_api_keys).post(api_keys::handlers::create_api_key),
        )
        .route(
            "/v1/admin/api-keys/{key_id}",
            patch(api_keys::handlers::update_api_key).delete(api_keys::handlers::revoke_api_key),
        )
        .route(
            "/v1/auth/validate",
            post(crate::api::admin::credentials::validate::validate_api_key),
        )
        .route(
            "/v1/admin/budgets",
            get(budgets::handlers::list_budgets)
                .post(budgets::handlers::create_budget)
                .patch(crate::api::admin::budgets::states::update_budget),
        )
        .route(
            "/v1/admin/budgets/freeze",
            post(crate::api::admin::budgets::states::freeze_budget),
        )
        .route(
            "/v1/admin/budgets/unfreeze",
            post(crate::api::admin::budgets::states::unfreeze_budget),
        )
        .route(
            "/v1/admin/budgets/fund",
            post(budgets::handlers::fund_budget),
        )
        .route(
            "/v1/admin/budgets/lookup",
            get(budgets::handlers::lookup_budget),
        )
        .route("/v1/admin/overview", get(overview::get_overview))
        .route(
            "/v1/admin/policies",
            get(policies::handlers::list_policies).post(policies::handlers::create_policy),
        )
        .route(
            "/v1/admin/policies/{policy_id}",
            patch(policies::handlers::update_policy),
        )
        .route(
            "/v1/admin/webhooks",
            get(webhook::list).post(webhook::create),
        )
        .route("/v1/admin/webhooks/{subscription_id}", one_webhook())
        .route(
            "/v1/admin/webhooks/{subscription_id}/test",
            post(webhook::test),
        )
        .route(
            "/v1/admin/webhooks/{subscription_id}/deliveries",
            get(webhook::deliveries),
        )
        .route(
            "/v1/admin/webhooks/{subscription_id}/replay",
            post(webhook::replay),
        )
        .route(
            "/v1/admin/audit/logs",
            get(crate::api::admin::audit::list_audit_logs),
        )
        .route("/v1/admin/events", get(events::list_events))
        .route("/v1/admin/events/{event_id}", get(events::get_event))
        // The tenant of this very name is to be reached too.
        .route(
            "/v1/admin/tenants/bulk-action",
            post(bulk::tenants)
                .get(bulk::get_tenant)
                .patch(bulk::update_tenant),
        )
        .route("/v1/admin/webhooks/bulk-action", post(bulk::webhooks))
        .route("/v1/admin/budgets/bulk-action", post(bulk::budgets))
        .route(
            "/v1/admin/config/webhook-security",
            get(webhook::get_security).put(webhook::put_security),
        )
        .method_not_allowed_fallback(no_such_method)
        .route_layer(from_fn_with_state(
            state.clone(),
            crate::api::auth::admin::admin,
        ))
        .with_state(state.clone())
}

/// The question who calls, which is asked of whichever address the key belongs to.
pub fn introspection(state: &AppState) -> Router {
    Router::new()
        .route(
            "/v1/auth/introspect",
            get(crate::api::admin::credentials::introspect::introspect),
        )
        .method_not_allowed_fallback(no_such_method)
        .route_layer(from_fn_with_state(
            state.clone(),
            crate::api::auth::admin::admin,
        ))
        .with_state(state.clone())
}

/// The operations that are for tenants themselves: on the address of the runtime plane, where their keys are sent.
pub fn tenant_routes(state: &AppState) -> Router {
    Router::new()
        .route(
            "/v1/webhooks",
            get(webhook::list_own).post(webhook::create_own),
        )
        .route("/v1/webhooks/{subscription_id}", one_webhook())
        .route("/v1/webhooks/{subscription_id}/test", post(webhook::test))
        .route(
            "/v1/webhooks/{subscription_id}/deliveries",
            get(webhook::deliveries),
        )
        .method_not_allowed_fallback(no_such_method)
        .route_layer(from_fn_with_state(
            state.clone(),
            crate::api::auth::admin::admin,
        ))
        .with_state(state.clone())
}

/// A tenant's own events. Their path is that of another operation, which is an agent's.
pub fn own_events(state: &AppState) -> MethodRouter<AppState> {
    get(events::list_own_events).route_layer(from_fn_with_state(
        state.clone(),
        crate::api::auth::admin::admin,
    ))
}

fn one_webhook() -> MethodRouter<AppState> {
    get(webhook::get)
        .patch(webhook::update)
        .delete(webhook::delete)
}

/// Answers for every path of the plane that is no operation: to the holder of an admin key alone.
pub fn nowhere(state: &AppState) -> Router {
    Router::new()
        .fallback(no_such_path)
        .layer(from_fn_with_state(
            state.clone(),
            crate::api::auth::admin::admin,
        ))
        .with_state(state.clone())
}
