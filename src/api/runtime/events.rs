//! Charges what was already spent, without a reservation.

use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::balances::{Balance, balances_of};
use crate::api::extract::{ApiJson, runtime_body};
use crate::api::operation::{Declaration, declare};
use crate::api::refusals::{ErrorContext, error_of};
use crate::api::response::{CheckedJson, Returns, amount};
use crate::api::state::AppState;
use crate::domain::action::{Action, Metrics};
use crate::domain::amount::Amount;
use crate::domain::caller::RuntimeCaller;
use crate::domain::cause::Cause;
use crate::domain::fields::object;
use crate::domain::ids::{IdempotencyKey, PostId};
use crate::domain::json::FreeObject;
use crate::domain::policy::OveragePolicy;
use crate::domain::scope::ScopePath;
use crate::domain::subject::Subject;
use crate::ledger::Post;

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

/// The only status of an event.
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

runtime_body!(EventCreateRequest);

pub(in crate::api) const DECLARATION: Declaration = declare!(
    create_event,
    "Charges what was already spent, without a reservation"
)
.idempotent()
.takes::<EventCreateRequest>()
.returns::<EventCreateResponse>(201, "What was charged.")
.refuses(&[404, 409]);

async fn create_event(
    State(state): State<AppState>,
    caller: RuntimeCaller,
    cause: Cause,
    body: ApiJson<EventCreateRequest>,
) -> Returns<EventCreateResponse> {
    let request = body.request;
    let path = ScopePath::enclosing(&request.subject).pop();
    let post = Post {
        idempotency_key: request.idempotency_key,
        payload_hash: body.payload_hash,
        subject: request.subject,
        action: request.action,
        actual: request.actual,
        overage_policy: request.overage_policy,
        metrics: request.metrics,
        client_time_ms: request.client_time_ms,
        metadata: request.metadata,
    };
    let context = ErrorContext {
        scope: path.as_ref(),
        amount: Some(post.actual),
        ..ErrorContext::default()
    };
    let posted = state.ledger.post(&caller, &post, &cause).await;
    let posted = posted.map_err(|error| error_of(error, context))?;
    let capped = posted.charged < post.actual.value();
    let charged = capped.then(|| amount(post.actual.unit(), posted.charged));
    let response = EventCreateResponse {
        status: EventStatus::Applied,
        event_id: posted.post_id,
        charged: charged.transpose()?,
        balances: balances_of(&posted.balances)?,
    };
    Ok(CheckedJson(StatusCode::CREATED, response))
}
