//! Events as responses show them.

pub mod get;
pub mod list;
pub mod list_own;
pub mod queries;

use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::api::errors::ApiError;
use crate::api::list::list_response;
use crate::domain::event::types::{EventCategory, EventType};
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

list_response! {
    /// A page of events.
    EventListResponse {
        /// In order.
        #[schema(value_type = Vec<Event>)]
        events: Box<RawValue>,
        has_more,
    }
}

/// A page with the stored bytes of each event.
fn response(
    events: Vec<String>,
    next_cursor: Option<String>,
) -> Result<EventListResponse, ApiError> {
    let events: Result<Vec<_>, ApiError> = events.into_iter().map(raw).collect();
    Ok(EventListResponse::new(events?, next_cursor))
}

/// The stored bytes of an event.
pub(super) fn raw(event: String) -> Result<Box<RawValue>, ApiError> {
    RawValue::from_string(event).map_err(ApiError::internal)
}
