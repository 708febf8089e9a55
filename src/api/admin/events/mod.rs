//! Events: `GET /v1/admin/events`, `GET /v1/admin/events/{event_id}`, and a tenant's own: `GET /v1/events`.

pub mod queries;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::extract::{Declined, Named, Outcome};
use super::refusals::{Asked, error_of};
use crate::admin::AdminError;
use crate::admin::events::EventPage;
use crate::api::admin::events::queries::{EventListQuery, TenantEventsQuery};
use crate::api::auth::runtime::tenant_caller;
use crate::api::errors::ApiError;
use crate::api::extract::{Answer, ByEither, RawQuery};
use crate::api::refusals::store_error;
use crate::api::state::AppState;
use crate::domain::event::types::{EventCategory, EventType};
use crate::domain::ids::TenantId;
use crate::domain::json::FreeObject;
use crate::domain::moment::Moment;

/// Something that has happened. The bytes of an event are the same wherever it is shown or delivered.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Names it.
    pub event_id: String,
    /// What has happened.
    pub event_type: EventType,
    /// What it is about.
    pub category: EventCategory,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub timestamp: Moment,
    /// Whose state has changed, or `__system__`.
    pub tenant_id: String,
    /// Which ledger or reservation, by its scope.
    #[schema(nullable = false)]
    pub scope: Option<String>,
    /// By whom.
    #[schema(value_type = EventActor, required = false, inline)]
    pub actor: Option<EventActor>,
    /// By which part of the service.
    pub source: String,
    /// What else is to be told, by type.
    #[schema(value_type = Object, required = false)]
    pub data: Option<FreeObject>,
    /// Which events belong together.
    #[schema(nullable = false)]
    pub correlation_id: Option<String>,
    /// The request that caused it.
    #[schema(nullable = false)]
    pub request_id: Option<String>,
    /// The operation that caused it.
    #[schema(nullable = false, pattern = "^[0-9a-f]{32}$")]
    pub trace_id: Option<String>,
    /// How many there were, where one event stands for several.
    #[schema(value_type = Object, required = false)]
    pub metadata: Option<FreeObject>,
}

/// Who caused an event.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EventActor {
    /// As what.
    #[serde(rename = "type")]
    #[schema(required = false, inline)]
    pub kind: EventActorType,
    /// Under which API key.
    #[schema(nullable = false)]
    pub key_id: Option<String>,
    /// From which address.
    #[schema(nullable = false)]
    pub source_ip: Option<String>,
}

/// As what somebody caused an event.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EventActorType {
    /// The operator.
    Admin,
    /// A tenant.
    ApiKey,
    /// The operator in a tenant's place.
    AdminOnBehalfOf,
    /// The service itself.
    System,
    /// What an operator has planned.
    Scheduler,
}

/// A page of events.
#[derive(Debug, Serialize, ToSchema)]
pub struct EventListResponse {
    /// In order.
    #[schema(value_type = Vec<Event>)]
    pub events: Vec<Box<RawValue>>,
    /// Where the next page begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
    /// Whether there is a next page; it may be empty.
    pub has_more: bool,
}

/// `GET /v1/admin/events`
pub async fn list_events(
    State(state): State<AppState>,
    ByEither(caller): ByEither,
    RawQuery(query): RawQuery,
) -> Result<Result<Response, Declined>, ApiError> {
    let query = EventListQuery::parse(&query)?;
    let secret = state.store.secret().await.map_err(store_error)?;
    let (asked, sort) = query.asked(secret)?;
    let page = match state.events.list(&caller, &asked).await {
        Ok(page) => page,
        Err(error) => return Ok(Err(declined(error, "", query.tenant()))),
    };
    let next = page.next.clone();
    let next = next.map(|place| query.next_cursor(sort, place, secret));
    let as_of = page.as_of_ms.and_then(Moment::from_ms);
    let answer = Answer(StatusCode::OK, listed(page, next)?);
    let header = as_of.and_then(|as_of| HeaderValue::from_str(&as_of.to_string()).ok());
    let name = state.access.dialect().header_names().as_of.clone();
    Ok(Ok(match header {
        Some(as_of) => ([(name, as_of)], answer).into_response(),
        None => answer.into_response(),
    }))
}

/// `GET /v1/admin/events/{event_id}`
pub async fn get_event(
    State(state): State<AppState>,
    Named(id): Named,
) -> Result<Outcome<Box<RawValue>>, ApiError> {
    match state.events.get(&id).await {
        Ok(event) => Ok(Ok(Answer(StatusCode::OK, raw(event)?))),
        Err(error) => Ok(Err(declined(error, &id, None))),
    }
}

/// `GET /v1/events`
pub async fn list_own_events(
    State(state): State<AppState>,
    ByEither(caller): ByEither,
    RawQuery(query): RawQuery,
) -> Result<Outcome<EventListResponse>, ApiError> {
    let tenant = tenant_caller(caller.clone())?.tenant;
    let query = TenantEventsQuery::parse(&query)?;
    let secret = state.store.secret().await.map_err(store_error)?;
    let asked = query.asked(&tenant, secret)?;
    let page = match state.events.list(&caller, &asked).await {
        Ok(page) => page,
        Err(error) => return Ok(Err(declined(error, "", Some(tenant)))),
    };
    let next = page.next.clone();
    let next = next.map(|place| query.next_cursor(&tenant, place, secret));
    Ok(Ok(Answer(StatusCode::OK, listed(page, next)?)))
}

fn listed(page: EventPage, next_cursor: Option<String>) -> Result<EventListResponse, ApiError> {
    let events: Result<Vec<_>, ApiError> = page.events.into_iter().map(raw).collect();
    Ok(EventListResponse {
        events: events?,
        has_more: next_cursor.is_some(),
        next_cursor,
    })
}

pub(super) fn raw(event: String) -> Result<Box<RawValue>, ApiError> {
    RawValue::from_string(event).map_err(ApiError::internal)
}

fn declined(error: AdminError, event: &str, tenant: Option<TenantId>) -> Declined {
    let asked = Asked {
        event,
        ..Asked::default()
    };
    Declined {
        error: error_of(error, &asked),
        tenant,
    }
}
