//! The HTTP operations on budgets.

pub mod create;
pub mod freeze;
pub mod fund;
pub mod get;
pub mod list;
mod requests;
pub mod update;

pub(super) use requests::check_amounts;
pub use requests::{BudgetFundingRequest, BudgetTarget, FundingTarget};

use serde_json::json;

use crate::admin::Funded;
use crate::api::errors::ApiError;
use crate::api::operation::parameters::{self, Parameter, text};
use crate::api::response::amount;
use crate::domain::amount::{Amount, SignedAmount, Unit};
use crate::domain::budget::funding::FundingOperation;
use crate::domain::fields::object;
use crate::domain::moment::Moment;

object! {
    /// A budget's figures before and after it was funded.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct BudgetFundingResponse: Serialize + Open {
        /// How the figures changed.
        pub operation: FundingOperation { described_as: || json!({"type": "string"}) },
        /// What the budget granted.
        pub previous_allocated: Amount,
        /// What the budget grants now.
        pub new_allocated: Amount,
        /// What could be reserved.
        pub previous_remaining: SignedAmount,
        /// What can be reserved now.
        pub new_remaining: SignedAmount,
        /// What was owed.
        pub previous_debt: Amount { required: false },
        /// What is owed now.
        pub new_debt: Amount { required: false },
        /// What had been charged.
        pub previous_spent: Amount { required: false },
        /// What counts as charged now.
        pub new_spent: Amount { required: false },
        /// When it was funded.
        pub timestamp: Moment { required: false },
    }
}

impl BudgetFundingResponse {
    fn new(operation: FundingOperation, unit: Unit, funded: &Funded) -> Result<Self, ApiError> {
        Ok(Self {
            operation,
            previous_allocated: amount(unit, funded.allocated.previous)?,
            new_allocated: amount(unit, funded.allocated.new)?,
            previous_remaining: SignedAmount::new(unit, funded.remaining.previous),
            new_remaining: SignedAmount::new(unit, funded.remaining.new),
            previous_debt: amount(unit, funded.debt.previous)?,
            new_debt: amount(unit, funded.debt.new)?,
            previous_spent: amount(unit, funded.spent.previous)?,
            new_spent: amount(unit, funded.spent.new)?,
            timestamp: funded.at,
        })
    }
}

/// The parameters that name one budget.
fn target_parameters() -> Vec<Parameter> {
    let units = parameters::words(Unit::WORDS);
    vec![
        parameters::required_query("scope", "Scope of the budget, in any case.", text()),
        parameters::required_query("unit", "Unit of the budget.", units),
    ]
}
