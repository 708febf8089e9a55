//! Lists events, of one tenant or of all.

use axum::extract::State;
use axum::response::{IntoResponse, Response};

use super::queries::AllEvents;
use super::{EventListResponse, response};
use crate::admin::events::EventPage;
use crate::api::admin::as_of;
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::errors::ApiError;
use crate::api::extract::RawQuery;
use crate::api::list::{ListRequest, parameters};
use crate::api::operation::{Declaration, declare};
use crate::api::response::CheckedJson;
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;

pub(in crate::api) const DECLARATION: Declaration =
    declare!(list_events, "Lists events, of one tenant or of all")
        .query(parameters::<AllEvents>)
        .returns::<EventListResponse>(200, "A page of events.");

async fn list_events(
    State(state): State<AppState>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let list = ListRequest::<AllEvents>::parse(&query)?;
    let secret = state.store.secret().await?;
    let listed = state.events.list(&caller, &list.query(secret)?).await;
    let EventPage { page, as_of_ms } = listed.map_err(|error| {
        let tenant = list.filter.tenant.as_deref().and_then(TenantId::parse);
        error_of(error, &ErrorContext::default()).about(tenant)
    })?;
    let next = list.next_cursor(&page, secret);
    let response = CheckedJson::ok(response(page.rows, next)?);
    Ok((as_of(&state, as_of_ms), response).into_response())
}
