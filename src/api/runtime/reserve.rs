//! Holds an amount before an action, or tells whether it could.

use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::Decision;
use super::balances::{Balance, balances_of};
use super::evidence::{self, EvidenceRef};
use crate::api::errors::ApiError;
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
use crate::domain::ids::{IdempotencyKey, ReservationId};
use crate::domain::json::FreeObject;
use crate::domain::policy::{Caps, OveragePolicy};
use crate::domain::reservation::RESERVATION_TTL_MS;
use crate::domain::scope::ScopePath;
use crate::domain::subject::Subject;
use crate::domain::tenant::RESERVATION_TTL_MS_DEFAULT;
use crate::domain::words::words;
use crate::ledger::{Decision as Decided, Reserve, Reserved};

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

runtime_body!(ReservationCreateRequest);

pub(in crate::api) const DECLARATION: Declaration = declare!(
    reserve,
    "Holds an amount on every budget that encloses the subject, or on none"
)
.idempotent()
.takes::<ReservationCreateRequest>()
.returns::<ReservationCreateResponse>(200, "The hold, or the outcome of a dry run.")
.refuses(&[404, 409]);

async fn reserve(
    State(state): State<AppState>,
    caller: RuntimeCaller,
    cause: Cause,
    body: ApiJson<ReservationCreateRequest>,
) -> Returns<ReservationCreateResponse> {
    let request = body.request;
    let path = ScopePath::enclosing(&request.subject).pop();
    let reserve = Reserve {
        idempotency_key: request.idempotency_key,
        payload_hash: body.payload_hash,
        subject: request.subject,
        action: request.action,
        estimate: request.estimate,
        ttl_ms: request.ttl_ms,
        grace_ms: request.grace_period_ms,
        overage_policy: request.overage_policy,
        dry_run: request.dry_run,
        metadata: request.metadata,
    };
    let context = ErrorContext {
        scope: path.as_ref(),
        amount: Some(reserve.estimate),
        ..ErrorContext::default()
    };
    let reserved = state.ledger.reserve(&caller, &reserve, &cause).await;
    let reserved = reserved.map_err(|error| error_of(error, context))?;
    Ok(CheckedJson(StatusCode::OK, response_of(reserved)?))
}

fn response_of(reserved: Reserved) -> Result<ReservationCreateResponse, ApiError> {
    match reserved {
        Reserved::Held {
            reservation_id,
            scope_path,
            reserved,
            expires_at_ms,
            remaining_ttl_ms,
            caps,
            balances,
        } => Ok(ReservationCreateResponse {
            decision: Decision::allow(caps.as_ref()),
            reservation_id: Some(reservation_id),
            affected_scopes: scope_path.with_parents().collect(),
            scope_path,
            reserved: Some(reserved),
            expires_at_ms: Some(expires_at_ms),
            remaining_ttl_ms: Some(remaining_ttl_ms),
            balances: Some(balances_of(&balances)?),
            caps,
            reason_code: None,
            retry_after_ms: None,
            evidence: None,
        }),
        Reserved::DryRun {
            scope_path,
            reserved,
            decision,
        } => {
            let (decision, balances, caps, reason_code) = match decision {
                Decided::Allow { caps, balances } => {
                    let balances = Some(balances_of(&balances)?);
                    (Decision::allow(caps.as_ref()), balances, caps, None)
                }
                Decided::Deny(denial) => {
                    let reason_code = denial.as_str().to_owned();
                    (Decision::Deny, None, None, Some(reason_code))
                }
            };
            Ok(ReservationCreateResponse {
                decision,
                reservation_id: None,
                affected_scopes: scope_path.with_parents().collect(),
                scope_path,
                reserved: balances.is_some().then_some(reserved),
                expires_at_ms: None,
                remaining_ttl_ms: None,
                balances,
                caps,
                reason_code,
                retry_after_ms: None,
                evidence: None,
            })
        }
    }
}
