//! The admin plane: what operators and dashboards call.

pub mod api_keys;
pub mod audit_logs;
pub mod audit_queries;
pub mod auth;
pub mod budget_states;
pub mod budgets;
pub mod bulk_actions;
pub mod bulk_handlers;
pub mod event_queries;
pub mod events;
pub mod extract;
pub mod handlers;
pub mod identify;
pub mod overview;
pub mod policies;
pub mod refusals;
mod shown;
pub mod tenant_update;
pub mod tenants;
pub mod webhook_handlers;
pub mod webhook_queries;
pub mod webhook_requests;
pub mod webhook_security;
pub mod webhooks;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, get, patch, post};

use super::identify::{no_such_method, no_such_path};
use super::state::AppState;
use bulk_handlers as bulk;
use webhook_handlers as webhook;

/// The operations. What is not among them is up to [`nowhere`].
pub fn routes(state: &AppState) -> Router {
    Router::new()
        .route(
            "/v1/admin/tenants",
            get(handlers::list_tenants).post(handlers::create_tenant),
        )
        .route(
            "/v1/admin/tenants/{tenant_id}",
            get(handlers::get_tenant).patch(tenant_update::update_tenant),
        )
        .route(
            "/v1/admin/api-keys",
            get(api_keys::handlers::list_api_keys).post(api_keys::handlers::create_api_key),
        )
        .route(
            "/v1/admin/api-keys/{key_id}",
            patch(api_keys::handlers::update_api_key).delete(api_keys::handlers::revoke_api_key),
        )
        .route("/v1/auth/validate", post(auth::validate::validate_api_key))
        .route(
            "/v1/admin/budgets",
            get(budgets::handlers::list_budgets)
                .post(budgets::handlers::create_budget)
                .patch(budget_states::update_budget),
        )
        .route(
            "/v1/admin/budgets/freeze",
            post(budget_states::freeze_budget),
        )
        .route(
            "/v1/admin/budgets/unfreeze",
            post(budget_states::unfreeze_budget),
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
        .route("/v1/admin/audit/logs", get(audit_logs::list_audit_logs))
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
        .route_layer(from_fn_with_state(state.clone(), identify::admin))
        .with_state(state.clone())
}

/// The question who calls, which is asked of whichever address the key belongs to.
pub fn introspection(state: &AppState) -> Router {
    Router::new()
        .route("/v1/auth/introspect", get(auth::introspect::introspect))
        .method_not_allowed_fallback(no_such_method)
        .route_layer(from_fn_with_state(state.clone(), identify::admin))
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
        .route_layer(from_fn_with_state(state.clone(), identify::admin))
        .with_state(state.clone())
}

/// A tenant's own events. Their path is that of another operation, which is an agent's.
pub fn own_events(state: &AppState) -> MethodRouter<AppState> {
    get(events::list_own_events).route_layer(from_fn_with_state(state.clone(), identify::admin))
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
        .layer(from_fn_with_state(state.clone(), identify::admin))
        .with_state(state.clone())
}
