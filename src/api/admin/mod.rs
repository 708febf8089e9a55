//! The admin plane: what operators and dashboards call, and tenants to govern themselves.

pub mod api_keys;
pub mod audit;
pub mod budgets;
pub mod bulk_actions;
pub mod credentials;
pub mod events;
pub mod extract;
pub mod policies;
pub mod tenants;
pub mod webhooks;

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};

use super::list::{List, ListCall};
use super::operation::{Declaration, declare};
use super::response::{CheckedJson, Returns};
use super::state::AppState;
use crate::admin::AdminOverviewResponse;
use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;

/// The tenant that a request acts upon: the API key's, or the text that the holder of the admin key sent, perhaps no id; empty where
/// the admin names none.
fn target_tenant_as_sent<'a>(caller: &'a Caller, named: Option<&'a str>) -> &'a str {
    match caller {
        Caller::Tenant(caller) => caller.tenant.as_str(),
        Caller::Admin(_) => named.unwrap_or_default(),
    }
}

/// Binds the cursors of a list to the tenant that it is about, and returns the tenant.
fn bind_tenant<L: List>(call: &mut ListCall<L>, named: Option<&str>) -> Option<TenantId> {
    let sent = target_tenant_as_sent(&call.caller, named);
    let tenant = TenantId::parse(sent);
    call.list.bind("tenant", sent);
    tenant
}

/// Headers of a response to work that continues in the background.
fn in_progress(state: &AppState) -> [(HeaderName, HeaderValue); 2] {
    let cascade = state.access.dialect().header_names().cascade.clone();
    [
        (cascade, HeaderValue::from_static("in_progress")),
        (header::RETRY_AFTER, HeaderValue::from_static("1")),
    ]
}

pub(in crate::api) const GET_OVERVIEW: Declaration = declare!(
    get_overview,
    "Gets counts, what needs attention and recent events; a few seconds old"
)
.returns::<AdminOverviewResponse>(200, "The overview.");

async fn get_overview(State(state): State<AppState>) -> Returns<AdminOverviewResponse> {
    let overview = state.admin.overview().await?;
    Ok(CheckedJson::ok(AdminOverviewResponse::clone(&overview)))
}
