//! `POST /v1/events`: charges what was already spent, without a reservation.

use serde::Serialize;
use utoipa::ToSchema;

use super::balances::Balance;
use crate::domain::action::{Action, Metrics};
use crate::domain::amount::Amount;
use crate::domain::fields::object;
use crate::domain::ids::{IdempotencyKey, PostId};
use crate::domain::json::FreeObject;
use crate::domain::policy::OveragePolicy;
use crate::domain::subject::Subject;

object! {
    /// Reports an action after it was taken.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct EventCreateRequest: Read {
        /// Identifies this report: the same key charges once.
        pub idempotency_key: IdempotencyKey,
        /// Whom the request charges.
        pub subject: Subject,
        /// What was done.
        pub action: Action,
        /// What it cost.
        pub actual: Amount,
        /// What happens where less remains than it cost. Policy, budget and tenant can set the default.
        pub overage_policy: Option<OveragePolicy> { default: OveragePolicy::DEFAULT },
        /// What the client measured.
        pub metrics: Option<Metrics>,
        /// When it happened by the client's clock, in milliseconds since the epoch. Stored; decides nothing.
        pub client_time_ms: Option<i64> { range: 0.. },
        /// Data that the client chooses.
        pub metadata: Option<FreeObject>,
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
