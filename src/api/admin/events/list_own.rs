//! Lists the events of the key's own tenant.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::on;

use super::queries::TenantEventsQuery;
use super::{EventListResponse, filters, page_limit};
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::extract::RawQuery;
use crate::api::operation::{Declaration, json, parameters};
use crate::api::refusals::store_error;
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::{Caller, RuntimeCaller};

pub(in crate::api) const DECLARATION: Declaration = Declaration {
    summary: "Lists the events of the key's own tenant, latest first",
    parameters: || {
        let mut parameters = filters();
        parameters.extend([parameters::cursor(), page_limit()]);
        parameters
    },
    request: None,
    responses: &[json::<EventListResponse>(200, "A page of events.")],
    errors: &[],
    handler: |method| on(method, list_own_events),
};

async fn list_own_events(
    State(state): State<AppState>,
    caller: RuntimeCaller,
    RawQuery(query): RawQuery,
) -> Returns<EventListResponse> {
    let tenant = caller.tenant.clone();
    let query = TenantEventsQuery::parse(&query)?;
    let secret = state.store.secret().await.map_err(store_error)?;
    let wanted = query.asked(&tenant, secret)?;
    let page = state.events.list(&Caller::Tenant(caller), &wanted).await;
    let page = page
        .map_err(|error| error_of(error, &ErrorContext::default()).about(Some(tenant.clone())))?;
    let next = page.next.clone();
    let next = next.map(|place| query.next_cursor(&tenant, place, secret));
    Ok(CheckedJson(
        StatusCode::OK,
        EventListResponse::new(page, next)?,
    ))
}
