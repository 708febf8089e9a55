//! Refusals of operations on budgets.

use axum::http::StatusCode;
use serde_json::json;

use crate::api::errors::{ApiError, Code};
use crate::domain::refusal::BudgetRefusal;

impl From<BudgetRefusal> for ApiError {
    fn from(refusal: BudgetRefusal) -> Self {
        use BudgetRefusal as R;
        match refusal {
            R::NotFound(budget) => Self::new(
                StatusCode::NOT_FOUND,
                Code::BudgetNotFound,
                format!("There is no budget at {budget}"),
            ),
            R::Duplicate(budget) => Self::conflict(
                Code::DuplicateResource,
                format!("There is a budget at {budget} already"),
            ),
            R::AlreadyFrozen(budget) => Self::conflict(
                Code::InvalidRequest,
                format!("The budget at {budget} is already frozen"),
            ),
            R::NotFrozen(budget) => Self::conflict(
                Code::InvalidRequest,
                format!("The budget at {budget} is not frozen"),
            ),
            R::Frozen(budget) => Self::conflict(
                Code::BudgetFrozen,
                format!("The budget at {budget} is frozen"),
            ),
            R::Closed(budget) => Self::conflict(
                Code::BudgetClosed,
                format!("The budget at {budget} is closed"),
            ),
            R::OfOtherTenant(scope) => {
                Self::forbidden(format!("The scope {scope} lies in another tenant"))
            }
            R::Exceeded {
                budget,
                requested,
                remaining,
            } => {
                let (scope, unit) = (budget.scope, budget.unit);
                let message =
                    format!("{requested} {unit} exceed the {remaining} that remain at {scope}");
                Self::conflict(Code::BudgetExceeded, message).with_details(json!({
                    "scope": scope, "unit": unit, "requested": requested, "remaining": remaining,
                }))
            }
            R::OutOfRange(_) => Self::invalid(
                "Validation failed: amount: a figure of the budget would leave the range of 64 bits",
            ),
        }
    }
}
