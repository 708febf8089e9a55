//! Temporary increases of budgets.

use super::BudgetTarget;
use crate::admin::{Admin, Request, refuse};
use crate::domain::amount::Unit;
use crate::domain::budget::increase::{
    BudgetIncrease, BudgetIncreaseRequest, INCREASES_MAX, IncreaseId, Increases,
};
use crate::domain::budget::ledger::BudgetLedger;
use crate::domain::caller::Caller;
use crate::domain::event::EventActor;
use crate::domain::moment::Moment;
use crate::domain::record::{Record, RecordError};
use crate::domain::refusal::BudgetRefusal;
use crate::domain::scope::{BudgetScope, Level};
use crate::store::StoreError;
use crate::store::admin::increases::{Increase, IncreaseReply};
use crate::store::target::Target as _;

/// What a call begins.
struct Begun {
    amount: i64,
    end_ms: i64,
    kept: String,
}

impl Admin {
    /// Raises what is allocated to a ledger for a time. Returns the increase and the ledger.
    ///
    /// # Errors
    /// Refusals, in this order: of the key and its scopes; another request under the same idempotency key; tenant closed; a foreign,
    /// unknown, frozen or closed ledger; an end in the past or too late; too many increases; a figure out of range.
    pub async fn increase_budget(
        &self,
        caller: &Caller,
        (scope, unit): (&BudgetScope, Unit),
        new: &BudgetIncreaseRequest,
        request: &Request<'_>,
    ) -> Result<(BudgetIncrease, BudgetLedger), StoreError> {
        let now_ms = self.store.clock().now_ms();
        let lasting = new.lasting.map(|lasting| lasting.end_ms(now_ms));
        let until = new
            .until
            .map_or_else(|| lasting.flatten().and_then(Moment::from_ms), Some);
        let Some((until, created_at)) = until.zip(Moment::from_ms(now_ms)) else {
            return refuse(BudgetRefusal::UntilOutOfRange);
        };
        let target = BudgetTarget::of_caller(caller, scope, unit)?;
        let actor = &request.cause.actor;
        let increase = BudgetIncrease {
            increase_id: IncreaseId::mint(target.tenant.partition()).to_string(),
            amount: new.amount,
            until,
            reason: new.reason.clone(),
            created_at,
            actor: EventActor {
                kind: actor.kind(),
                key_id: actor.key_id().map(str::to_owned),
                source_ip: None,
            },
        };
        let begun = Begun {
            amount: new.amount.value(),
            end_ms: until.as_ms(),
            kept: increase.to_string(),
        };
        let id = &increase.increase_id;
        let reason = Some(new.reason.as_str());
        let changed = self.change_increase(&target, caller, (id, reason), Some(begun), request);
        let (id, record) = changed.await?;
        let ledger = target.about(super::changed_ledger(&record))?;
        // A replay shows the increase of the first request.
        let increases: Option<Increases> = target.about(record.optional("increases"))?;
        let made = increases.as_ref().and_then(|increases| increases.find(&id));
        let made = made.cloned().ok_or_else(|| RecordError::of("increases"));
        Ok((target.about(made)?, ledger))
    }

    /// Ends an increase now.
    ///
    /// # Errors
    /// As of [`Self::increase_budget`]; no such increase, or one that has ended.
    pub async fn end_increase(
        &self,
        caller: &Caller,
        (scope, unit): (&BudgetScope, Unit),
        increase_id: &str,
        request: &Request<'_>,
    ) -> Result<BudgetLedger, StoreError> {
        let mut target = BudgetTarget::of_caller(caller, scope, unit)?;
        target.increase_id = Some(increase_id.to_owned());
        let changed = self.change_increase(&target, caller, (increase_id, None), None, request);
        let (_, record) = changed.await?;
        target.about(super::changed_ledger(&record))
    }

    async fn change_increase(
        &self,
        target: &BudgetTarget,
        caller: &Caller,
        (increase_id, reason): (&str, Option<&str>),
        begun: Option<Begun>,
        request: &Request<'_>,
    ) -> Result<(String, Record), StoreError> {
        let (operation, status) = match begun {
            Some(_) => ("createBudgetIncrease", 201),
            None => ("endBudgetIncrease", 200),
        };
        let mut change = target.change(request, operation, status, "");
        change.add("metadata.increase_id", Some(increase_id));
        change.add("metadata.amount", begun.as_ref().map(|begun| begun.amount));
        change.add("metadata.reason", reason);
        let scope = &target.budget.scope;
        let owner = scope.value(Level::Tenant);
        let call = |until_ms| Increase {
            caller: caller.into(),
            change: &change,
            tenant: &target.tenant,
            scope: scope.as_str(),
            unit: target.budget.unit.as_str(),
            foreign: owner != Some(target.tenant.as_str()),
            until_ms,
            increase_id,
            amount: begun.as_ref().map(|begun| begun.amount),
            end_ms: begun.as_ref().map(|begun| begun.end_ms),
            kept: begun.as_ref().map(|begun| begun.kept.clone()),
            reason,
            limit: INCREASES_MAX,
        };
        let IncreaseReply::Increased {
            increase_id,
            record,
        } = self.turning(target, request.cause, call).await?;
        Ok((increase_id, record.0))
    }
}
