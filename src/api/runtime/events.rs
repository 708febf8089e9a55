//! `POST /v1/events`: charges what was already spent, without a reservation.

use serde::Serialize;
use utoipa::ToSchema;

use super::balances::Balance;
use crate::domain::action::{Action, Metrics};
use crate::domain::amount::Amount;
use crate::domain::fields::{Problems, read_body};
use crate::domain::ids::{IdempotencyKey, PostId};
use crate::domain::json::{FreeObject, Json};
use crate::domain::policy::OveragePolicy;
use crate::domain::subject::Subject;

/// Reports an action after it was taken.
#[derive(Debug, Clone, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EventCreateRequest {
    /// Names this report; repeating it under the same key charges once.
    #[schema(value_type = String, min_length = 1, max_length = 256)]
    pub idempotency_key: IdempotencyKey,
    /// Who the action was for.
    pub subject: Subject,
    /// What was done.
    pub action: Action,
    /// What it cost.
    pub actual: Amount,
    /// What happens where less is left than it cost. The default can be set on policy, budget and tenant.
    #[schema(default = "ALLOW_IF_AVAILABLE", nullable = false)]
    pub overage_policy: Option<OveragePolicy>,
    /// What the client measured.
    #[schema(nullable = false)]
    pub metrics: Option<Metrics>,
    /// When it happened by the client's clock, in milliseconds since the epoch. Kept for the record; decides nothing.
    #[schema(minimum = 0, nullable = false)]
    pub client_time_ms: Option<i64>,
    /// Data of the client's own.
    #[schema(value_type = Object, required = false)]
    pub metadata: Option<FreeObject>,
}

impl EventCreateRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Problems`], all of them.
    pub fn from_json(body: Json) -> Result<Self, Problems> {
        read_body(body, |body| {
            let idempotency_key = body.required("idempotency_key", |value| value.idempotency_key());
            let subject = body.required("subject", Subject::read);
            let action = body.required("action", Action::read);
            let actual = body.required("actual", Amount::read);
            let overage_policy = body.optional("overage_policy", OveragePolicy::read);
            let metrics = body.optional("metrics", Metrics::read);
            let client_time_ms =
                body.optional("client_time_ms", |value| value.integer(0..=i64::MAX));
            let metadata = body.optional("metadata", |value| value.free_object());
            Some(Self {
                idempotency_key: idempotency_key?,
                subject: subject?,
                action: action?,
                actual: actual?,
                overage_policy,
                metrics,
                client_time_ms,
                metadata,
            })
        })
    }
}

/// The only status that an event answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum EventStatus {
    /// Charged.
    Applied,
}

/// What was charged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EventCreateResponse {
    /// What became of the report.
    pub status: EventStatus,
    /// Names the charge.
    #[schema(value_type = String)]
    pub event_id: PostId,
    /// What every budget was charged. Absent when that is all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub charged: Option<Amount>,
    /// The budgets that were charged, root first, after the charge.
    #[schema(required = false)]
    pub balances: Vec<Balance>,
}
