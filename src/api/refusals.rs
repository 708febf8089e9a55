//! The table from refusals of the ledger to errors of the wire.

use axum::http::StatusCode;
use serde_json::json;

use super::dialect::headers;
use super::errors::{ApiError, Code};
use crate::domain::amount::Amount;
use crate::domain::ids::ReservationId;
use crate::domain::printable::printable;
use crate::domain::refusal::{BadCredential, Denial, Refusal};
use crate::domain::scope::ScopePath;
use crate::ledger::LedgerError;
use crate::store::StoreError;

/// What an error message may name of the request.
#[derive(Debug, Clone, Copy, Default)]
pub struct ErrorContext<'a> {
    /// The deepest scope of the subject.
    pub scope: Option<&'a ScopePath>,
    /// The reservation that the path names.
    pub reservation: Option<&'a ReservationId>,
    /// What was requested or used.
    pub amount: Option<Amount>,
}

/// The error that a client gets. Its script has checked the API key.
pub fn error_of(error: LedgerError, context: ErrorContext<'_>) -> ApiError {
    let error = match error {
        LedgerError::Refused(refusal) => refused(refusal, context),
        LedgerError::Store(error) => store_error(error),
        LedgerError::Record(error) => ApiError::internal(error),
    };
    error.after_check()
}

/// 503 where a retry may help, else 500.
pub fn store_error(error: StoreError) -> ApiError {
    match error {
        StoreError::Unavailable(_) => ApiError::unavailable(error, 1),
        // Memory does not come back as fast as a connection.
        StoreError::Full => ApiError::unavailable(error, 5),
        StoreError::Script { .. }
        | StoreError::Reply { .. }
        | StoreError::Refused { .. }
        | StoreError::Deployment(_) => ApiError::internal(error),
    }
}

fn refused(refusal: Refusal, context: ErrorContext<'_>) -> ApiError {
    use Refusal as R;
    let reservation = || {
        context
            .reservation
            .map(|id| printable(id.as_str()))
            .unwrap_or_default()
    };
    match refusal {
        R::Unauthorized(why) => ApiError::unauthorized(BadCredential::Key(why)),
        R::Forbidden(permission) => {
            ApiError::forbidden(format!("The API key lacks the permission {permission}"))
        }
        R::ScopeForbidden => ApiError::forbidden("The API key is restricted to other scopes"),
        R::ForeignTenant => {
            ApiError::forbidden("The request names another tenant than the API key's")
        }
        R::ForeignReservation => ApiError::forbidden("The reservation belongs to another tenant"),
        R::NotFound => ApiError::not_found(format!("Resource not found: {}", reservation())),
        R::IdempotencyMismatch => ApiError::conflict(
            Code::IdempotencyMismatch,
            "The idempotency key was first used with another request; use a new key",
        ),
        R::TenantUnreadable => {
            ApiError::internal("the record of the tenant has no readable status")
        }
        R::TenantClosed(tenant) => ApiError::conflict(
            Code::TenantClosed,
            format!("The tenant {tenant} is closed; what it owns is read-only"),
        ),
        R::TenantSuspended(tenant) => {
            ApiError::forbidden(format!("The tenant {tenant} is suspended; no new spending"))
        }
        R::RateLimited {
            retry_in_ms,
            until_ms,
            policy_id,
        } => rate_limited(retry_in_ms, until_ms, &policy_id, context.scope),
        R::Expired => ApiError::expired(format!("The reservation {} has expired", reservation())),
        R::Finalized(status) => ApiError::conflict(
            Code::ReservationFinalized,
            format!("The reservation {} is already {status}", reservation()),
        ),
        R::TooManyExtensions(limit) => ApiError::conflict(
            Code::MaxExtensionsExceeded,
            format!("The reservation has been extended {limit} times, and more is not allowed"),
        ),
        R::UnitMismatch { scope, expected } => unit_mismatch(&scope, &expected, context.amount),
        R::BudgetNotFound => {
            let scope = context.scope.map(ScopePath::as_str).unwrap_or_default();
            ApiError::not_found(format!("Budget not found for provided scope: {scope}"))
        }
        R::Denied {
            denial,
            scope,
            remaining,
        } => denied(denial, &scope, Some(remaining), context.amount),
        R::Inactive { denial, scope } => denied(denial, &scope, None, context.amount),
        R::OverageRejected { scope, reserved } => {
            overage_rejected(&scope, reserved, context.amount)
        }
        R::TooManyToSort(refusal) => ApiError::invalid(refusal.to_string()),
        R::Corrupt(what) => ApiError::internal(format!("the record `{what}` is corrupt")),
    }
}

/// Both headers in whole seconds; minutes end on one.
fn rate_limited(
    retry_in_ms: i64,
    until_ms: i64,
    policy_id: &str,
    scope: Option<&ScopePath>,
) -> ApiError {
    let scope = scope.map(ScopePath::as_str).unwrap_or_default();
    let message = format!("The rate limit of the policy {policy_id} is reached at {scope}");
    let seconds = (retry_in_ms.max(0) as u64).div_ceil(1000);
    ApiError::limited(message, seconds)
        .with_header(headers::RATE_LIMIT_RESET, (until_ms / 1000).into())
        .with_details(json!({ "scope": scope, "policy_id": policy_id }))
}

fn unit_mismatch(
    scope: &str,
    expected: &[crate::domain::amount::Unit],
    amount: Option<Amount>,
) -> ApiError {
    let units: Vec<&str> = expected.iter().map(|unit| unit.as_str()).collect();
    let requested = amount.map(|amount| amount.unit().as_str());
    let message = format!(
        "Unit mismatch at {scope}: requested {}, available {}",
        requested.unwrap_or("another unit"),
        units.join(", "),
    );
    ApiError::new(StatusCode::BAD_REQUEST, Code::UnitMismatch, message).with_details(json!({
        "scope": scope, "requested_unit": requested, "expected_units": units,
    }))
}

fn denied(denial: Denial, scope: &str, remaining: Option<i64>, amount: Option<Amount>) -> ApiError {
    let (code, cause) = match denial {
        Denial::BudgetExceeded => (Code::BudgetExceeded, "Insufficient remaining budget"),
        Denial::BudgetFrozen => (Code::BudgetFrozen, "The budget is frozen"),
        Denial::BudgetClosed => (Code::BudgetClosed, "The budget is closed"),
        Denial::OverdraftLimitExceeded => (
            Code::OverdraftLimitExceeded,
            "The overdraft limit is exceeded",
        ),
        Denial::DebtOutstanding => (Code::DebtOutstanding, "The budget has outstanding debt"),
        Denial::TenantClosed => (Code::TenantClosed, "The tenant is closed"),
        Denial::BudgetNotFound | Denial::TenantSuspended => {
            return ApiError::internal("a denial that only decisions know");
        }
    };
    let mut message = format!("{cause} at {scope}");
    let mut details = json!({ "scope": scope });
    if let Some(amount) = amount {
        message.push_str(&format!(": requested {amount}"));
        details["unit"] = json!(amount.unit().as_str());
        details["requested"] = json!(amount.value());
    }
    if let Some(remaining) = remaining {
        message.push_str(&format!(", remaining {remaining}"));
        details["remaining"] = json!(remaining);
    }
    ApiError::conflict(code, message).with_details(details)
}

fn overage_rejected(scope: &str, reserved: i64, amount: Option<Amount>) -> ApiError {
    let mut details = json!({ "scope": scope, "reserved": reserved });
    let mut message = format!("The actual amount exceeds the {reserved} reserved at {scope}");
    if let Some(amount) = amount {
        message = format!(
            "{amount} exceeds the {reserved} reserved at {scope}, and the policy is REJECT"
        );
        details["unit"] = json!(amount.unit().as_str());
        details["requested"] = json!(amount.value());
    }
    ApiError::conflict(Code::BudgetExceeded, message).with_details(details)
}
