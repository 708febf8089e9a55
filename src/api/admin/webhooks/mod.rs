//! Webhook subscriptions as responses show them.

pub mod create;
pub mod create_own;
pub mod delete;
pub mod deliveries;
pub mod get;
pub mod list;
pub mod list_own;
pub mod queries;
pub mod replay;
pub mod requests;
pub mod security;
pub mod test;
pub mod update;

use std::collections::BTreeMap;

use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::webhooks::WebhookError;
use crate::api::admin::refusals;
use crate::api::errors::ApiError;
use crate::api::list::list_response;
use crate::api::operation::parameters::{self, Parameter, text};
use crate::domain::event::types::{EventCategory, EventType, EventTypeName};
use crate::domain::ids::TenantId;
use crate::domain::json::FreeObject;
use crate::domain::moment::Moment;
use crate::domain::webhook::{
    self as domain, DeliveryStatus, HEADER_MASK, RetryPolicy, Thresholds, WebhookStatus,
};

/// A webhook subscription. Its signing secret is shown by the response that creates it, and by no other.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookSubscription {
    /// Names it.
    pub subscription_id: String,
    /// Whose it is: a tenant, or `__system__`.
    pub tenant_id: String,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256, nullable = false)]
    pub name: Option<String>,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024, nullable = false)]
    pub description: Option<String>,
    /// Where deliveries go.
    #[schema(max_length = 2048)]
    pub url: String,
    /// Which events, by type.
    #[schema(value_type = Vec<EventType>)]
    pub event_types: Vec<EventTypeName>,
    /// Which events besides, by category.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub event_categories: Vec<EventCategory>,
    /// Events of which scopes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub scope_filter: Option<String>,
    /// From when on anomalies are told.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub thresholds: Option<Thresholds>,
    /// Never shown here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, write_only)]
    pub signing_secret: Option<String>,
    /// Headers of each delivery, with `********` for every value.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false)]
    pub headers: BTreeMap<String, String>,
    /// Whether it gets events.
    pub status: WebhookStatus,
    /// How failed deliveries are repeated.
    #[schema(required = false)]
    pub retry_policy: RetryPolicy,
    /// Deliveries in a row that may fail before it is disabled.
    #[schema(minimum = 1, default = 10, required = false)]
    pub disable_after_failures: i64,
    /// Deliveries in a row that have failed.
    #[schema(required = false, read_only)]
    pub consecutive_failures: i64,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
    /// When its settings were last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub updated_at: Option<Moment>,
    /// When a delivery was last tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub last_triggered_at: Option<Moment>,
    /// When a delivery last succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub last_success_at: Option<Moment>,
    /// When a delivery last failed for good.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub last_failure_at: Option<Moment>,
    /// The owner's own data.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    pub metadata: Option<FreeObject>,
}

impl From<domain::Subscription> for WebhookSubscription {
    fn from(subscription: domain::Subscription) -> Self {
        let s = subscription;
        let masked = |name: String| (name, HEADER_MASK.to_owned());
        Self {
            subscription_id: s.subscription_id.to_string(),
            tenant_id: s.owner.to_string(),
            name: s.name,
            description: s.description,
            url: s.url,
            event_types: s.event_types,
            event_categories: s.event_categories,
            scope_filter: s.scope_filter,
            thresholds: s.thresholds,
            signing_secret: None,
            headers: s.header_names.into_iter().map(masked).collect(),
            status: s.status,
            retry_policy: s.retry_policy,
            disable_after_failures: s.disable_after_failures,
            consecutive_failures: s.consecutive_failures,
            created_at: s.created_at,
            updated_at: s.updated_at,
            last_triggered_at: s.last_triggered_at,
            last_success_at: s.last_success_at,
            last_failure_at: s.last_failure_at,
            metadata: s.metadata,
        }
    }
}

/// A new subscription. The only response that shows its signing secret.
#[derive(Serialize, ToSchema)]
pub struct WebhookCreateResponse {
    /// The subscription.
    pub subscription: WebhookSubscription,
    /// The key of the signatures of its deliveries.
    #[schema(required = false)]
    signing_secret: String,
}

impl WebhookCreateResponse {
    /// Reveals the secret.
    pub fn new(subscription: domain::Subscription, secret: &SecretString) -> Self {
        Self {
            subscription: subscription.into(),
            signing_secret: secret.expose_secret().to_owned(),
        }
    }
}

impl std::fmt::Debug for WebhookCreateResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let id = &self.subscription.subscription_id;
        write!(f, "WebhookCreateResponse({id}, redacted)")
    }
}

list_response! {
    /// A page of subscriptions.
    WebhookListResponse {
        /// The subscriptions.
        subscriptions: WebhookSubscription,
        has_more,
    }
}

/// The delivery of one event.
#[derive(Debug, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookDelivery {
    /// Names it.
    pub delivery_id: String,
    /// To which subscription.
    pub subscription_id: String,
    /// Of which event.
    pub event_id: String,
    /// The event's type.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = EventType, required = false)]
    pub event_type: Option<String>,
    /// What has become of it.
    pub status: DeliveryStatus,
    /// When it was queued.
    #[schema(value_type = String, format = DateTime)]
    pub attempted_at: Moment,
    /// When it came to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub completed_at: Option<Moment>,
    /// Attempts begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub attempts: Option<i64>,
    /// Status of the last answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub response_status: Option<i64>,
    /// How long the last attempt took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub response_time_ms: Option<i64>,
    /// What went wrong last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error_message: Option<String>,
    /// When it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub next_retry_at: Option<Moment>,
    /// The event's trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[0-9a-f]{32}$", nullable = false)]
    pub trace_id: Option<String>,
    /// The flags of the request that caused the event.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[0-9a-f]{2}$", nullable = false)]
    pub trace_flags: Option<String>,
    /// Whether that request had a valid `traceparent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub traceparent_inbound_valid: Option<bool>,
}

impl From<domain::Delivery> for WebhookDelivery {
    fn from(delivery: domain::Delivery) -> Self {
        Self {
            delivery_id: delivery.delivery_id,
            subscription_id: delivery.subscription_id,
            event_id: delivery.event_id,
            event_type: delivery.event_type,
            status: delivery.status,
            attempted_at: delivery.attempted_at,
            completed_at: delivery.completed_at,
            attempts: delivery.attempts,
            response_status: delivery.response_status,
            response_time_ms: delivery.response_time_ms,
            error_message: delivery.error_message,
            next_retry_at: delivery.next_retry_at,
            trace_id: delivery.trace_id,
            trace_flags: delivery.trace_flags,
            traceparent_inbound_valid: delivery.traceparent_inbound_valid,
        }
    }
}

list_response! {
    /// A page of deliveries.
    WebhookDeliveryListResponse {
        /// The deliveries, newest first.
        deliveries: WebhookDelivery,
        has_more,
    }
}

/// What came of a test.
#[derive(Debug, Serialize, ToSchema)]
pub struct WebhookTestResponse {
    /// Whether the receiver has taken the event.
    pub success: bool,
    /// The status of its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub response_status: Option<i64>,
    /// How long it took, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub response_time_ms: Option<i64>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error_message: Option<String>,
    /// The event that was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub event_id: Option<String>,
}

/// A replay that was queued.
#[derive(Debug, Serialize, ToSchema)]
pub struct ReplayResponse {
    /// Names it.
    #[schema(required = false)]
    pub replay_id: String,
    /// How many events will be delivered once more.
    #[schema(required = false)]
    pub events_queued: i64,
    /// How long that may take, in seconds.
    #[schema(required = false)]
    pub estimated_completion_seconds: i64,
}

fn subscription_id() -> Parameter {
    parameters::path("subscription_id", "Names the subscription.", text())
}

/// The error that a client gets. `tenant` and `webhook`: what the request names.
fn error_of(error: WebhookError, tenant: &str, webhook: &str) -> ApiError {
    let owner = error.owner;
    let context = refusals::ErrorContext {
        tenant: owner.as_ref().map_or(tenant, TenantId::as_str),
        webhook,
        ..refusals::ErrorContext::default()
    };
    refusals::error_of(error.error, &context).about(owner.clone())
}
