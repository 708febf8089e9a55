//! Refusals of operations on budgets.

use std::fmt;

use crate::domain::amount::Unit;
use crate::domain::scope::ScopePath;

/// A budget as refusals name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetName {
    /// Its scope.
    pub scope: ScopePath,
    /// What it counts.
    pub unit: Unit,
}

impl fmt::Display for BudgetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.scope, self.unit)
    }
}

/// Why a budget is not created, shown or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BudgetRefusal {
    /// There is no such budget.
    #[error("There is no budget at {0}")]
    NotFound(BudgetName),
    /// There is such a budget already.
    #[error("There is a budget at {0} already")]
    Duplicate(BudgetName),
    /// It is frozen already, and was to be.
    #[error("The budget at {0} is already frozen")]
    AlreadyFrozen(BudgetName),
    /// It is not frozen, and the freeze was to end.
    #[error("The budget at {0} is not frozen")]
    NotFrozen(BudgetName),
    /// It is frozen.
    #[error("The budget at {0} is frozen")]
    Frozen(BudgetName),
    /// It is closed.
    #[error("The budget at {0} is closed")]
    Closed(BudgetName),
    /// The scope lies in another tenant than the request's.
    #[error("The scope {0} lies in another tenant")]
    OfOtherTenant(ScopePath),
    /// Less remains than is to be taken away.
    #[error("{requested} {} exceed the {remaining} that remain at {}", .budget.unit, .budget.scope)]
    Exceeded {
        /// The budget.
        budget: BudgetName,
        /// What is to be taken away.
        requested: i64,
        /// What remains.
        remaining: i64,
    },
    /// A figure of the budget would leave the range of 64 bits.
    #[error("Validation failed: amount: a figure of the budget would leave the range of 64 bits")]
    OutOfRange(BudgetName),
}
