//! Refusals of operations that reserve and charge.

use axum::http::StatusCode;
use serde_json::json;

use crate::api::errors::{ApiError, Code};
use crate::domain::amount::Amount;
use crate::domain::printable::printable;
use crate::domain::refusal::{Denial, ReservationRefusal};

impl From<ReservationRefusal> for ApiError {
    fn from(refusal: ReservationRefusal) -> Self {
        use ReservationRefusal as R;
        match refusal {
            R::NotFound(id) => Self::not_found(format!("Resource not found: {}", printable(id.as_str()))),
            R::OfOtherTenant => Self::forbidden("The reservation belongs to another tenant"),
            R::Expired(id) => {
                Self::expired(format!("The reservation {} has expired", printable(id.as_str())))
            }
            R::Finalized { reservation_id: id, status } => Self::conflict(
                Code::ReservationFinalized,
                format!("The reservation {} is already {status}", printable(id.as_str())),
            ),
            R::TooManyExtensions(limit) => Self::conflict(
                Code::MaxExtensionsExceeded,
                format!("The reservation has been extended {limit} times, and more is not allowed"),
            ),
            R::RateLimited { scope, policy_id, retry_in_ms, until_ms } => Self::limited_until(
                format!("The rate limit of the policy {policy_id} is reached at {scope}"),
                retry_in_ms,
                until_ms,
            )
            .with_details(json!({ "scope": scope, "policy_id": policy_id })),
            R::UnitMismatch { scope, requested, expected } => {
                let units: Vec<_> = expected.iter().map(|unit| unit.as_str()).collect();
                let available = units.join(", ");
                let message =
                    format!("Unit mismatch at {scope}: requested {requested}, available {available}");
                Self::new(StatusCode::BAD_REQUEST, Code::UnitMismatch, message).with_details(json!({
                    "scope": scope, "requested_unit": requested, "expected_units": units,
                }))
            }
            R::BudgetNotFound(scope) => {
                Self::not_found(format!("Budget not found for provided scope: {scope}"))
            }
            R::Denied { denial, scope, requested, remaining } => {
                denied(denial, &scope, requested, remaining)
            }
            R::OverageRejected { scope, reserved, requested } => Self::conflict(
                Code::BudgetExceeded,
                format!("{requested} exceeds the {reserved} reserved at {scope}, and the policy is REJECT"),
            )
            .with_details(json!({
                "scope": scope, "reserved": reserved, "unit": requested.unit(), "requested": requested.value(),
            })),
        }
    }
}

fn denied(denial: Denial, scope: &str, requested: Amount, remaining: Option<i64>) -> ApiError {
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
    let mut message = format!("{cause} at {scope}: requested {requested}");
    let mut details = json!({
        "scope": scope, "unit": requested.unit(), "requested": requested.value(),
    });
    if let Some(remaining) = remaining {
        message.push_str(&format!(", remaining {remaining}"));
        details["remaining"] = json!(remaining);
    }
    ApiError::conflict(code, message).with_details(details)
}
