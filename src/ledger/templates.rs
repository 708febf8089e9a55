//! Budgets that a request needs and that policies have templates for: the script judges by the template, and before something is held or
//! charged, the budgets are created.

use std::sync::Arc;

use uuid::Uuid;

use super::Ledger;
use crate::domain::amount::Unit;
use crate::domain::audit::entry::entry;
use crate::domain::caller::ScriptCaller;
use crate::domain::cause::{Actor, Cause};
use crate::domain::ids::TenantId;
use crate::domain::policy::{Policy, PolicySelection};
use crate::domain::scope::ScopePath;
use crate::store::admin::Change;
use crate::store::admin::budget_creation::BudgetCreation;
use crate::store::signature::Refused;
use crate::store::target::Target as _;
use crate::store::{ExtraRoundTrip, ScriptError, StoreError};

impl Ledger {
    /// The templates that apply to a request, for its script: a line each, of the depth and what the script judges by; see
    /// `ledger/templates`.
    pub(super) fn template_words(&self, selection: &PolicySelection, unit: Unit) -> Option<String> {
        let now_ms = self.store.clock().trusted_now_ms();
        let line = |(depth, policy): &(usize, Arc<Policy>)| {
            let words = policy.template(unit)?.words(now_ms);
            Some(format!("{depth} {words}\n"))
        };
        let lines: String = selection.templates.iter().filter_map(line).collect();
        Some(lines).filter(|lines| !lines.is_empty())
    }

    /// Creates the budgets at these depths of a scope by the templates of a selection, while it still holds. One that exists by now is
    /// as good.
    ///
    /// # Errors
    /// [`StoreError`]; refused where the tenant has as many budgets as it may have.
    pub(super) async fn create_first(
        &self,
        tenant: &TenantId,
        (scope, unit): (&ScopePath, Unit),
        (selection, depths): (&PolicySelection, &str),
        cause: &Cause,
    ) -> Result<(), StoreError> {
        self.store.extra_round_trip(ExtraRoundTrip::CreateFirst);
        let wanted: Vec<&str> = depths.split(' ').collect();
        for (depth, policy) in &selection.templates {
            let scope = scope.with_parents().nth(depth - 1);
            if let Some(scope) = scope.filter(|_| wanted.contains(&depth.to_string().as_str())) {
                self.create_by(policy, selection, (tenant, &scope, unit), cause)
                    .await?;
            }
        }
        Ok(())
    }

    async fn create_by(
        &self,
        policy: &Policy,
        selection: &PolicySelection,
        (tenant, scope, unit): (&TenantId, &ScopePath, Unit),
        cause: &Cause,
    ) -> Result<(), StoreError> {
        let Some(template) = policy.template(unit) else {
            return Ok(());
        };
        let new = template.creation(scope);
        let cause = Cause {
            actor: Actor::System,
            source_ip: None,
            ..cause.clone()
        };
        let ledger_id = Uuid::new_v4().to_string();
        let mut audit = entry(&cause, "createBudget", ("budget", &ledger_id), Some(201));
        audit.extend([
            ("metadata.scope", scope.to_string()),
            ("metadata.unit", unit.to_string()),
            ("metadata.allocated", new.allocated.value().to_string()),
            ("metadata.policy_id", policy.policy_id.to_string()),
        ]);
        let change = Change {
            context: cause.lines(),
            audit,
            payload_hash: "",
            digest: None,
        };
        let creation = BudgetCreation {
            caller: ScriptCaller::TRUSTED,
            tenant,
            scope,
            new: &new,
            ledger_id: &ledger_id,
            limit: self.budgets_per_tenant,
            template: Some((&policy.policy_id, selection)),
        };
        match creation.run(&self.store, &change).await {
            // The request runs again, and its own script says what has changed.
            Err(ScriptError::Refused(
                Refused::DuplicateBudget
                | Refused::Stale { .. }
                | Refused::TenantClosed
                | Refused::TenantSuspended,
                _,
            )) => Ok(()),
            created => tenant.outcome(created).map(drop),
        }
    }
}
