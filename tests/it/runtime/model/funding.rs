//! Funding in plain arithmetic.

use budget_authority::domain::budget::ledger::FundingOperation;

use super::pure::{Model, Name, Outcome};

impl Model {
    /// Funds a ledger; `spent` counts for RESET_SPENT alone.
    pub fn fund(
        &mut self,
        name: &Name,
        operation: FundingOperation,
        amount: i128,
        spent: i128,
    ) -> Outcome {
        if self.closed.contains(&name.0) {
            return Outcome::Refused("TenantClosed");
        }
        if self.frozen.contains(name) {
            return Outcome::Refused("BudgetFrozen");
        }
        if !self.ledgers.contains_key(name) {
            return Outcome::Refused("BudgetNotFound");
        }
        self.turn(std::slice::from_ref(name));
        let before = self.ledgers[name];
        let mut after = before;
        match operation {
            FundingOperation::Credit => after.allocated += amount,
            FundingOperation::Debit if before.remaining() < amount => {
                return Outcome::Refused("BudgetExceeded");
            }
            FundingOperation::Debit => after.allocated -= amount,
            FundingOperation::Reset => after.allocated = amount,
            FundingOperation::ResetSpent => (after.allocated, after.spent) = (amount, spent),
            FundingOperation::Renew => {
                after.allocated = self.renewed(name);
                after.spent = before.debt.min(after.allocated);
                after.debt -= after.spent;
            }
            FundingOperation::RepayDebt => {
                let repaid = before.debt.min(amount);
                after.debt -= repaid;
                after.allocated += amount - repaid;
            }
        }
        let fits = |value: i128| i64::try_from(value).is_ok();
        // What is held can always be charged.
        let charged = after.spent + after.reserved;
        if after.allocated < 0
            || ![after.allocated, after.remaining(), charged]
                .into_iter()
                .all(fits)
        {
            return Outcome::Refused("OutOfRange");
        }
        after.over = after.debt > after.limit;
        if !after.over {
            self.charged_over.remove(name);
        }
        self.ledgers.insert(name.clone(), after);
        if [FundingOperation::Renew, FundingOperation::ResetSpent].contains(&operation) {
            self.periods.begin(name);
        }
        if let (FundingOperation::Reset, Some(plan)) = (operation, self.plans.get_mut(name)) {
            plan.increases.clear();
        }
        self.funded(name, before);
        Outcome::Extended
    }
}
