//! `POST /v1/decide`: whether an action would be allowed, without holding anything.

use serde::Serialize;
use utoipa::ToSchema;

use super::Decision;
use super::evidence::{self, EvidenceRef};
use crate::domain::action::Action;
use crate::domain::amount::Amount;
use crate::domain::fields::object;
use crate::domain::ids::IdempotencyKey;
use crate::domain::json::FreeObject;
use crate::domain::policy::Caps;
use crate::domain::scope::ScopePath;
use crate::domain::subject::Subject;

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
