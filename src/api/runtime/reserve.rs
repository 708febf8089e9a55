//! `POST /v1/reservations`: holds an amount before an action, or tells whether it could.

use serde::Serialize;
use utoipa::ToSchema;

use super::Decision;
use super::balances::Balance;
use super::evidence::{self, EvidenceRef};
use crate::domain::action::Action;
use crate::domain::amount::Amount;
use crate::domain::fields::{Object, Problems, read_body};
use crate::domain::ids::{IdempotencyKey, ReservationId};
use crate::domain::json::{FreeObject, Json};
use crate::domain::policy::{Caps, OveragePolicy};
use crate::domain::scope::ScopePath;
use crate::domain::subject::Subject;

/// Shortest and longest lifetime that a request may ask for, in milliseconds.
pub const TTL_MS: std::ops::RangeInclusive<i64> = 1_000..=86_400_000;
/// Grace after the lifetime, in milliseconds.
pub const GRACE_PERIOD_MS: std::ops::RangeInclusive<i64> = 0..=60_000;
/// Grace of a request that names none, in milliseconds.
pub const GRACE_PERIOD_MS_DEFAULT: i64 = 5_000;

/// Asks for a hold on every budget that encloses the subject.
#[derive(Debug, Clone, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReservationCreateRequest {
    /// Names this attempt; repeating it under the same key holds once.
    #[schema(value_type = String, min_length = 1, max_length = 256)]
    pub idempotency_key: IdempotencyKey,
    /// Who the action is for.
    pub subject: Subject,
    /// What is to be done.
    pub action: Action,
    /// What it will cost at most; held until the reservation ends.
    pub estimate: Amount,
    /// How long the hold lasts, in milliseconds. The tenant's settings give the default and cut what is longer than allowed.
    #[schema(
        minimum = 1000,
        maximum = 86_400_000,
        default = 60_000,
        nullable = false
    )]
    pub ttl_ms: Option<i64>,
    /// How long after that a commit or release is still accepted, in milliseconds.
    #[schema(minimum = 0, maximum = 60_000, default = 5_000, required = false)]
    pub grace_period_ms: i64,
    /// What a commit above the estimate does. The default can be set on policy, budget and tenant.
    #[schema(default = "ALLOW_IF_AVAILABLE", nullable = false)]
    pub overage_policy: Option<OveragePolicy>,
    /// Only tells what would happen.
    #[schema(default = false, required = false)]
    pub dry_run: bool,
    /// Data of the client's own, returned with the reservation.
    #[schema(value_type = Object, required = false)]
    pub metadata: Option<FreeObject>,
}

impl ReservationCreateRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Problems`], all of them.
    pub fn from_json(body: Json) -> Result<Self, Problems> {
        read_body(body, |body| {
            let idempotency_key = body.required("idempotency_key", |value| value.idempotency_key());
            let subject = body.required("subject", Subject::read);
            let action = body.required("action", Action::read);
            let estimate = body.required("estimate", Amount::read);
            let ttl_ms = body.optional("ttl_ms", |value| value.integer(TTL_MS));
            let grace_period_ms =
                body.optional("grace_period_ms", |value| value.integer(GRACE_PERIOD_MS));
            let overage_policy = body.optional("overage_policy", OveragePolicy::read);
            let dry_run = body.optional("dry_run", |value| value.boolean());
            let metadata = body.optional("metadata", |value| value.free_object());
            refuse_observe_mode(body);
            Some(Self {
                idempotency_key: idempotency_key?,
                subject: subject?,
                action: action?,
                estimate: estimate?,
                ttl_ms,
                grace_period_ms: grace_period_ms.unwrap_or(GRACE_PERIOD_MS_DEFAULT),
                overage_policy,
                dry_run: dry_run.unwrap_or(false),
                metadata,
            })
        })
    }
}

/// `OBSERVE` promises that nothing is spent, which this release cannot keep; the other modes are what it does anyway.
fn refuse_observe_mode(body: &mut Object<'_>) {
    const MODES: [&str; 3] = ["ENFORCE", "DISABLED", "OBSERVE"];
    let read = |mode: &str| MODES.into_iter().find(|known| *known == mode);
    if body.optional("observe_mode", |value| value.one_of(read, &MODES)) == Some("OBSERVE") {
        body.refuse_member(
            "observe_mode",
            "OBSERVE is not supported; use dry_run to try without holding",
        );
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
