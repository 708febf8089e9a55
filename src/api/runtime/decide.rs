//! Whether an action would be allowed, without holding anything.

use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::Decision;
use super::evidence::{self, EvidenceRef};
use crate::api::extract::{ApiJson, runtime_body};
use crate::api::operation::{Declaration, declare};
use crate::api::refusals::{ErrorContext, error_of};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::action::Action;
use crate::domain::amount::Amount;
use crate::domain::caller::RuntimeCaller;
use crate::domain::cause::Cause;
use crate::domain::fields::object;
use crate::domain::ids::IdempotencyKey;
use crate::domain::json::FreeObject;
use crate::domain::policy::Caps;
use crate::domain::scope::ScopePath;
use crate::domain::subject::Subject;
use crate::ledger::{Decide, Decision as Decided};

object! {
    /// Asks whether an action would be allowed.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct DecisionRequest: Read {
        /// Identifies this question: the same key gets the same response.
        pub idempotency_key: IdempotencyKey,
        /// Whom the request charges.
        pub subject: Subject,
        /// What is to be done.
        pub action: Action,
        /// Most that it will cost.
        pub estimate: Amount,
        /// Data that the client chooses.
        pub metadata: Option<FreeObject>,
    }
}

/// Whether the action would be allowed, at the moment of asking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DecisionResponse {
    /// The answer.
    pub decision: Decision,
    /// Every scope that encloses the subject, root first, whether or not it has a budget.
    #[schema(value_type = Vec<String>, required = false)]
    pub affected_scopes: Vec<ScopePath>,
    /// What the caller must keep to. Only with `ALLOW_WITH_CAPS`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub caps: Option<Caps>,
    /// Why not. Only with `DENY`. Clients must expect values that they do not know.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 128, nullable = false)]
    pub reason_code: Option<String>,
    /// When asking again may help, in milliseconds from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, nullable = false)]
    pub retry_after_ms: Option<i64>,
    /// Where the signed evidence of the decision can be read.
    #[serde(flatten, serialize_with = "evidence::serialize_reference")]
    #[schema(ignore)]
    pub evidence: Option<EvidenceRef>,
}

runtime_body!(DecisionRequest);

pub(in crate::api) const DECLARATION: Declaration = declare!(
    decide,
    "Tells whether an action would be allowed, without holding anything"
)
.idempotent()
.takes::<DecisionRequest>()
.returns::<DecisionResponse>(200, "The decision, a denial included.")
.refuses(&[409]);

async fn decide(
    State(state): State<AppState>,
    caller: RuntimeCaller,
    cause: Cause,
    body: ApiJson<DecisionRequest>,
) -> Returns<DecisionResponse> {
    let request = body.request;
    let decide = Decide {
        idempotency_key: request.idempotency_key,
        payload_hash: body.payload_hash,
        subject: request.subject,
        action: request.action,
        estimate: request.estimate,
    };
    let context = ErrorContext {
        amount: Some(decide.estimate),
        ..ErrorContext::default()
    };
    let decided = state.ledger.decide(&caller, &decide, &cause).await;
    let decided = decided.map_err(|error| error_of(error, context))?;
    let (decision, caps, reason_code) = match decided.decision {
        Decided::Allow { caps, .. } => (Decision::allow(caps.as_ref()), caps, None),
        Decided::Deny(denial) => (Decision::Deny, None, Some(denial.as_str().to_owned())),
    };
    let response = DecisionResponse {
        decision,
        affected_scopes: decided.scope_path.with_parents().collect(),
        caps,
        reason_code,
        retry_after_ms: None,
        evidence: None,
    };
    Ok(CheckedJson(StatusCode::OK, response))
}
