//! `update_budget.lua` and `freeze_budget.lua`.

use crate::domain::amount::Unit;
use crate::domain::budget::funding::BudgetStatus;
use crate::domain::budget::ledger::BudgetUpdateRequest;
use crate::domain::fields::Patch;
use crate::domain::ids::TenantId;
use crate::domain::json::FreeObject;
use crate::domain::record::Record;
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::scope::ScopePath;
use crate::driver::clock::Day;
use crate::driver::script::Script;
use crate::store::Store;
use crate::store::admin::{AdminError, Change, outcome, push_day, push_pairs, refused};
use crate::store::scripts::{FREEZE_BUDGET, UPDATE_BUDGET};

/// A ledger by its name.
#[derive(Debug, Clone, Copy)]
pub struct LedgerName<'a> {
    /// Whose ledger: the scope's.
    pub tenant: &'a TenantId,
    /// Of that tenant.
    pub scope: &'a ScopePath,
    /// What it counts.
    pub unit: Unit,
}

impl Store {
    /// Changes a ledger and returns its record.
    ///
    /// # Errors
    /// Refusals: tenant closed; an unknown or closed ledger.
    pub async fn update_budget(
        &self,
        ledger: LedgerName<'_>,
        update: &BudgetUpdateRequest,
        change: &Change<'_>,
    ) -> Result<Record, AdminError> {
        let limit = update
            .overdraft_limit
            .map(|limit| limit.value().to_string());
        let args = [
            limit.as_deref().unwrap_or_default(),
            patched(&update.commit_overage_policy, |policy| policy.as_str()),
            patched(&update.metadata, FreeObject::as_str),
        ];
        self.change_ledger(&UPDATE_BUDGET, ledger, &args, change)
            .await
    }

    /// Freezes a ledger, or ends that, and returns its record.
    ///
    /// # Errors
    /// Refusals: tenant closed; an unknown or closed ledger, or one that is in that state.
    pub async fn freeze_budget(
        &self,
        ledger: LedgerName<'_>,
        frozen: bool,
        reason: Option<&str>,
        change: &Change<'_>,
    ) -> Result<Record, AdminError> {
        let status = match frozen {
            true => BudgetStatus::Frozen,
            false => BudgetStatus::Active,
        };
        let args = [status.as_str(), reason.unwrap_or_default()];
        self.change_ledger(&FREEZE_BUDGET, ledger, &args, change)
            .await
    }

    async fn change_ledger(
        &self,
        script: &Script,
        ledger: LedgerName<'_>,
        what: &[&str],
        change: &Change<'_>,
    ) -> Result<Record, AdminError> {
        let (keys, partition, tenant) = (
            self.keys(),
            ledger.tenant.partition(),
            ledger.tenant.as_str(),
        );
        let build = |day: Day| {
            let mut key_names = vec![
                keys.tenant(partition, tenant),
                keys.budget(
                    partition,
                    tenant,
                    ledger.unit.as_str(),
                    ledger.scope.as_str(),
                ),
                keys.events(partition, tenant, day),
                keys.outbox(partition),
                keys.days(partition),
                keys.audit(partition, tenant, day),
                keys.chain(partition, tenant),
                keys.unsealed(partition),
                match script.name() == UPDATE_BUDGET.name() {
                    true => keys.over_limit_or_in_debt(partition),
                    false => keys.counts(partition),
                },
            ];
            key_names.extend(
                change
                    .idempotency
                    .map(|key| keys.idempotency(partition, tenant, key)),
            );
            let mut args = vec![tenant.to_owned()];
            push_day(&mut args, day);
            args.extend([ledger.scope.as_str(), ledger.unit.as_str()].map(str::to_owned));
            args.extend(what.iter().map(|word| (*word).to_owned()));
            args.extend([change.payload_hash, change.cause].map(str::to_owned));
            push_pairs(&mut args, change.audit);
            (key_names, args)
        };
        let (word, mut reply) = self.admin_call(script, build).await?;
        match outcome(word, &mut reply)?.as_str() {
            "updated" | "changed" => Ok(Record::from_pairs(reply.rest()?)),
            "not_found" => Err(AdminError::Refused(AdminRefusal::BudgetNotFound)),
            "unchanged" if what[0] == BudgetStatus::Frozen.as_str() => {
                Err(AdminError::Refused(AdminRefusal::AlreadyFrozen))
            }
            "unchanged" => Err(AdminError::Refused(AdminRefusal::NotFrozen)),
            other => Err(refused(other, reply)),
        }
    }
}

/// As the script reads it: nothing stays, `-` takes out. No value is just that: one is a word, the other an object.
fn patched<T>(patch: &Patch<T>, text: impl Fn(&T) -> &str) -> &str {
    match patch {
        Patch::Keep => "",
        Patch::Clear => "-",
        Patch::Set(value) => text(value),
    }
}
