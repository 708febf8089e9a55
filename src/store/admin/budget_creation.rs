//! The call of `create_budget.lua`: for an operator, or for a request that meets a scope with a template and without a budget.

use crate::domain::amount::Amount;
use crate::domain::budget::ledger::{BudgetCreateRequest, Enforcement};
use crate::domain::budget::limit::Windows;
use crate::domain::budget::projection::IDLE;
use crate::domain::caller::ScriptCaller;
use crate::domain::ids::TenantId;
use crate::domain::policy::{PolicyId, PolicySelection};
use crate::domain::record::{Record, RecordError, set_fields};
use crate::domain::scope::ScopePath;
use crate::driver::script::Counted;
use crate::store::admin::Change;
use crate::store::admin::budgets::{CreateBudget, CreateBudgetReply};
use crate::store::{Lane, Pair, ScriptError, Store};

/// A budget that is to be created.
pub(crate) struct BudgetCreation<'a> {
    /// The caller, whose key the script checks.
    pub caller: ScriptCaller<'a>,
    /// Tenant that will own it.
    pub tenant: &'a TenantId,
    /// Its scope.
    pub scope: &'a ScopePath,
    /// Its terms.
    pub new: &'a BudgetCreateRequest,
    /// Its id.
    pub ledger_id: &'a str,
    /// Budgets that the tenant may have.
    pub limit: u32,
    /// The policy whose template it follows, and the selection that it is from. It is used at once then, else it turns when it is
    /// used first: nothing has moved before.
    pub template: Option<(&'a PolicyId, &'a PolicySelection)>,
}

impl BudgetCreation<'_> {
    /// Opens the ledger; its record.
    ///
    /// # Errors
    /// A refusal of the script, or [`StoreError`](crate::store::StoreError).
    pub async fn run(&self, store: &Store, change: &Change<'_>) -> Result<Record, ScriptError> {
        let (scope, unit) = (self.scope, self.new.allocated.unit());
        let selection = self.template.map(|(_, selection)| selection);
        let fields = self.fields(store.clock().trusted_now_ms());
        let (fields, turns_at_ms) = fields.map_err(|error| ScriptError::Store(error.into()))?;
        let call = CreateBudget {
            caller: self.caller,
            change,
            tenant: self.tenant,
            scope: scope.as_str(),
            unit: unit.as_str(),
            member: format!("{scope} {} {unit}", unit.index()),
            ledger_id: self.ledger_id,
            allocated: self.new.allocated.value(),
            overdraft_limit: self.new.overdraft_limit.map_or(0, Amount::value),
            limit: self.limit,
            turns_at_ms: turns_at_ms.filter(|_| self.template.is_some()),
            policy_id: self.template.map(|(policy_id, _)| policy_id),
            policies_version: selection.map_or("", |selection| &selection.version),
            policy_from_ms: selection.map_or(0, |selection| selection.from_ms),
            policy_until_ms: selection.map_or(0, |selection| selection.until_ms),
            fields: Counted(&fields),
        };
        let CreateBudgetReply::Created { record } = store.run(Lane::Request, &call).await?;
        Ok(record.0)
    }

    /// Names and values that only the record keeps, and when it turns.
    fn fields(&self, now_ms: i64) -> Result<(Vec<Pair>, Option<i64>), RecordError> {
        let mut new = self.new.clone();
        let (allocated, mut end_ms) = (new.allocated, None);
        if let Some(period) = &mut new.period {
            period.allocated.get_or_insert(allocated);
            let [start, end] = period.bounds(now_ms)?;
            (new.period_start, new.period_end) = (Some(start), Some(end));
            end_ms = Some(end.as_ms());
        }
        let windows = Windows::of(&new.limits, now_ms);
        let turns_at_ms = [end_ms, windows.turns_at_ms()].into_iter().flatten().min();
        let mut fields = set_fields(new.fields());
        fields.extend(turns_at_ms.map(|at_ms| {
            let is_used = self.template.is_some();
            let planned = is_used.then(|| at_ms.to_string());
            ("turns_at_ms", planned.unwrap_or_else(|| IDLE.to_owned()))
        }));
        let observes = new.enforcement == Some(Enforcement::Observe);
        fields.extend(observes.then(|| ("observes", "1".to_owned())));
        fields.extend((!new.limits.is_empty()).then(|| ("limits", windows.to_string())));
        let has_terms = observes || !new.limits.is_empty() || turns_at_ms.is_some();
        fields.extend(has_terms.then(|| ("terms", "1".to_owned())));
        Ok((fields, turns_at_ms))
    }
}
