//! Lists the events of the key's own tenant.

use axum::extract::State;

use super::queries::TenantEvents;
use super::{EventListResponse, response};
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::extract::RawQuery;
use crate::api::list::{ListRequest, parameters};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::{Caller, RuntimeCaller};

pub(in crate::api) const DECLARATION: Declaration = declare!(
    list_own_events,
    "Lists the events of the key's own tenant, latest first"
)
.query(parameters::<TenantEvents>)
.returns::<EventListResponse>(200, "A page of events.");

async fn list_own_events(
    State(state): State<AppState>,
    caller: RuntimeCaller,
    RawQuery(query): RawQuery,
) -> Returns<EventListResponse> {
    let tenant = caller.tenant.clone();
    let mut list = ListRequest::<TenantEvents>::parse(&query)?;
    list.bind("tenant_id", &tenant);
    let secret = state.store.secret().await?;
    let mut query = list.query(secret)?;
    query.filter.tenant = Some(tenant.to_string());
    let listed = state.events.list(&Caller::Tenant(caller), &query).await;
    let listed =
        listed.map_err(|error| error_of(error, &ErrorContext::default()).about(Some(tenant)))?;
    let next = list.next_cursor(&listed.page, secret);
    let response = response(listed.page.rows, next)?;
    Ok(CheckedJson::ok(response))
}
