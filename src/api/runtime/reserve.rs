//! `POST /v1/reservations`: holds an amount before an action, or tells whether it could.

use serde::Serialize;
use utoipa::ToSchema;

use super::Decision;
use super::balances::Balance;
use super::evidence::{self, EvidenceRef};
use crate::domain::action::Action;
use crate::domain::amount::Amount;
use crate::domain::fields::object;
use crate::domain::ids::{IdempotencyKey, ReservationId};
use crate::domain::json::FreeObject;
use crate::domain::policy::{Caps, OveragePolicy};
use crate::domain::reservation::RESERVATION_TTL_MS;
use crate::domain::scope::ScopePath;
use crate::domain::subject::Subject;
use crate::domain::tenant::RESERVATION_TTL_MS_DEFAULT;
use crate::domain::words::words;

/// How long after expiry a commit still counts, where a request does not say, in milliseconds.
pub const GRACE_PERIOD_MS_DEFAULT: i64 = 5_000;

object! {
    /// Asks for a hold on every budget that encloses the subject.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ReservationCreateRequest: Read {
        /// Identifies this attempt: the same key holds once.
        pub idempotency_key: IdempotencyKey,
        /// Whom the request charges.
        pub subject: Subject,
        /// What is to be done.
        pub action: Action,
        /// Most that it will cost; held until the reservation ends.
        pub estimate: Amount,
        /// How long the hold lasts, in milliseconds. The tenant's settings give the default and cap longer lifetimes.
        pub ttl_ms: Option<i64> { range: RESERVATION_TTL_MS, default: RESERVATION_TTL_MS_DEFAULT },
        /// Grace period: how long after expiry a commit or release still counts, in milliseconds.
        pub grace_period_ms: i64 { range: 0..=60_000, default: GRACE_PERIOD_MS_DEFAULT },
        /// What a commit above the estimate does. Policy, budget and tenant can set the default.
        pub overage_policy: Option<OveragePolicy> { default: OveragePolicy::DEFAULT },
        /// `true`: only reports what would happen.
        pub dry_run: bool { default: false },
        /// Data that the client chooses, returned with the reservation.
        pub metadata: Option<FreeObject>,
        /// Other modes than `OBSERVE` are what the service does anyway.
        pub observe_mode: Option<ObserveMode> { described: false },
    }
    check |request, object| {
        // It promises that nothing is spent, which this release cannot keep.
        if request.observe_mode == Some(ObserveMode::Observe) {
            object.refuse_member("observe_mode", "OBSERVE is not supported; use dry_run to try without holding");
        }
    }
}

words! {
    /// How a request wants its limits to be applied.
    ObserveMode {
        /// Refuse what exceeds them.
        Enforce = "ENFORCE",
        /// Refuse what exceeds them.
        Disabled = "DISABLED",
        /// Only report what exceeds them.
        Observe = "OBSERVE",
    }
}

/// A hold, or the outcome of a dry run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReservationCreateResponse {
    /// `DENY` only in dry runs: a live request that is denied is an error.
    pub decision: Decision,
    /// Names the hold. Absent in dry runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub reservation_id: Option<ReservationId>,
    /// Every scope that encloses the subject, root first, whether or not it has a budget.
    #[schema(value_type = Vec<String>)]
    pub affected_scopes: Vec<ScopePath>,
    /// The subject's own scope.
    #[schema(value_type = String, required = false)]
    pub scope_path: ScopePath,
    /// What is held: the estimate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reserved: Option<Amount>,
    /// When the hold lapses, in milliseconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, nullable = false)]
    pub expires_at_ms: Option<i64>,
    /// How long that is from now, in milliseconds. The only member that a repeated request may find changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, nullable = false)]
    pub remaining_ttl_ms: Option<i64>,
    /// The budgets that hold it, root first, after the hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub balances: Option<Vec<Balance>>,
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
    /// Where the signed evidence can be read.
    #[serde(flatten, serialize_with = "evidence::serialize_reference")]
    #[schema(ignore)]
    pub evidence: Option<EvidenceRef>,
}
