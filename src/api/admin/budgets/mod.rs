//! Budgets as requests and responses show them.

pub mod create;
pub mod freeze;
pub mod fund;
pub mod get;
pub mod list;
mod requests;
pub mod unfreeze;
pub mod update;

pub(super) use requests::check_unit;
pub use requests::{BudgetCreateRequest, BudgetFundingRequest, BudgetTarget};

use serde::Serialize;
use utoipa::ToSchema;

use crate::admin::Funded;
use crate::api::errors::ApiError;
use crate::api::operation::parameters::{self, Parameter, text};
use crate::api::response::amount;
use crate::domain::amount::{Amount, SignedAmount, Unit};
use crate::domain::budget::funding::{BudgetStatus, FundingOperation, RolloverPolicy};
use crate::domain::budget::ledger;
use crate::domain::ids::TenantId;
use crate::domain::moment::Moment;
use crate::domain::policy::OveragePolicy;
use crate::domain::scope::ScopePath;

/// A budget with all its figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetLedger {
    /// Names the budget.
    pub ledger_id: String,
    /// Whose it is.
    #[schema(value_type = String, required = false)]
    pub tenant_id: TenantId,
    /// Where it hangs, in lower case.
    #[schema(value_type = String)]
    pub scope: ScopePath,
    /// The same.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    pub scope_path: Option<ScopePath>,
    /// What it counts.
    pub unit: Unit,
    /// What the operator has given.
    pub allocated: Amount,
    /// What may still be reserved. Negative in debt.
    pub remaining: SignedAmount,
    /// What reservations hold.
    #[schema(required = false)]
    pub reserved: Amount,
    /// What was charged.
    #[schema(required = false)]
    pub spent: Amount,
    /// What was charged beyond what was there.
    #[schema(required = false)]
    pub debt: Amount,
    /// How much debt is allowed.
    #[schema(required = false)]
    pub overdraft_limit: Amount,
    /// Whether new reservations are refused until it is funded.
    #[schema(required = false)]
    pub is_over_limit: bool,
    /// What a commit above its estimate does. Absent: as the tenant's settings say.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub commit_overage_policy: Option<OveragePolicy>,
    /// Whether it may be used.
    pub status: BudgetStatus,
    /// Stored and returned; nothing is carried over by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub rollover_policy: Option<RolloverPolicy>,
    /// Stored and returned; without influence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub period_start: Option<Moment>,
    /// Stored and returned; without influence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub period_end: Option<Moment>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
    /// When it was last changed by an operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub updated_at: Option<Moment>,
}

/// A budget's figures before and after an operator changed them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct BudgetFundingResponse {
    /// In which way.
    #[schema(value_type = String)]
    pub operation: FundingOperation,
    /// What the operator had given.
    pub previous_allocated: Amount,
    /// What the operator has given now.
    pub new_allocated: Amount,
    /// What might have been reserved.
    pub previous_remaining: SignedAmount,
    /// What may be reserved now.
    pub new_remaining: SignedAmount,
    /// What was owed.
    #[schema(required = false)]
    pub previous_debt: Amount,
    /// What is owed now.
    #[schema(required = false)]
    pub new_debt: Amount,
    /// What had been charged.
    #[schema(required = false)]
    pub previous_spent: Amount,
    /// What counts as charged now.
    #[schema(required = false)]
    pub new_spent: Amount,
    /// When.
    #[schema(value_type = String, format = DateTime, required = false)]
    pub timestamp: Moment,
}

impl TryFrom<ledger::BudgetLedger> for BudgetLedger {
    type Error = ApiError;

    /// 500 for a negative figure: the record is corrupt.
    fn try_from(ledger: ledger::BudgetLedger) -> Result<Self, ApiError> {
        let unit = ledger.unit;
        Ok(Self {
            ledger_id: ledger.ledger_id,
            tenant_id: ledger.tenant_id,
            scope: ledger.scope,
            scope_path: None,
            unit,
            allocated: amount(unit, ledger.allocated)?,
            remaining: SignedAmount::new(unit, ledger.remaining),
            reserved: amount(unit, ledger.reserved)?,
            spent: amount(unit, ledger.spent)?,
            debt: amount(unit, ledger.debt)?,
            overdraft_limit: amount(unit, ledger.overdraft_limit)?,
            is_over_limit: ledger.is_over_limit,
            commit_overage_policy: ledger.commit_overage_policy,
            status: ledger.status,
            rollover_policy: ledger.rollover_policy,
            period_start: ledger.period_start,
            period_end: ledger.period_end,
            created_at: ledger.created_at,
            updated_at: ledger.updated_at,
        })
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
        parameters::required_query(
            "scope",
            "Where the budget hangs, whatever the case.",
            text(),
        ),
        parameters::required_query("unit", "What the budget counts.", units),
    ]
}

/// The parameters of a change to one budget.
fn change_parameters() -> Vec<Parameter> {
    let mut parameters = target_parameters();
    parameters.push(parameters::idempotency_key());
    parameters
}
