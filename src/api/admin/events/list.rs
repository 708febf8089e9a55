//! Lists events, of one tenant or of all.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::on;

use super::queries::EventListQuery;
use super::{EventListResponse, filters, page_limit};
use crate::api::admin::as_of;
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::errors::ApiError;
use crate::api::extract::RawQuery;
use crate::api::operation::parameters::{self, Parameter, text};
use crate::api::operation::{Declaration, json};
use crate::api::refusals::store_error;
use crate::api::response::CheckedJson;
use crate::api::sort::SortKey;
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::event::query::EventSort;

pub(in crate::api) const DECLARATION: Declaration = Declaration {
    summary: "Lists events, of one tenant or of all",
    parameters,
    request: None,
    responses: &[json::<EventListResponse>(200, "A page of events.")],
    errors: &[],
    handler: |method| on(method, list_events),
};

fn parameters() -> Vec<Parameter> {
    let trace = serde_json::json!({"type": "string", "pattern": "^[0-9a-f]{32}$"});
    let mut parameters = vec![parameters::query(
        "tenant_id",
        "Whose they are; `__system__` for events of no tenant. Absent: those of all.",
        text(),
    )];
    parameters.extend(filters());
    parameters.extend([
        parameters::query("trace_id", "Exactly this.", trace),
        parameters::query("request_id", "Exactly this.", text()),
        parameters::search("What correlation id or scope must contain, whatever the case."),
    ]);
    parameters.extend(parameters::sort(
        "What they are sorted by.",
        EventSort::WORDS,
        EventSort::DEFAULT.word(),
    ));
    parameters.extend([parameters::cursor(), page_limit()]);
    parameters
}

async fn list_events(
    State(state): State<AppState>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let query = EventListQuery::parse(&query)?;
    let secret = state.store.secret().await.map_err(store_error)?;
    let (wanted, sort) = query.asked(secret)?;
    let page = state.events.list(&caller, &wanted).await;
    let page =
        page.map_err(|error| error_of(error, &ErrorContext::default()).about(query.tenant()))?;
    let next = page.next.clone();
    let next = next.map(|place| query.next_cursor(sort, place, secret));
    let as_of = as_of(&state, page.as_of_ms);
    let response = CheckedJson(StatusCode::OK, EventListResponse::new(page, next)?);
    Ok((as_of, response).into_response())
}
