//! `update_budget.lua` and `freeze_budget.lua`.

use crate::domain::amount::Unit;
use crate::domain::budget::funding::BudgetStatus;
use crate::domain::budget::ledger::BudgetUpdateRequest;
use crate::domain::ids::{Partition, TenantId};
use crate::domain::record::Record;
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::scope::ScopePath;
use crate::store::admin::{AdminError, Change, Changes, changes_of};
use crate::store::signature::{FlatRecord, Refused, signature};
use crate::store::{Pair, Store};

signature! {
    /// Changes what an operator set on a ledger, and computes anew whether it is over its limit.
    UPDATE_BUDGET: UpdateBudget -> UpdateBudgetReply = "admin/budgets/update_budget";
    names { partition: Partition, digest: Option<&'a str> }
    keys of partition {
        write tenant_key: tenant(tenant), budget_key: budget(tenant, unit, scope), event_log: events(tenant, day), outbox(),
            days(), audit_log: audit(tenant, day), chain(tenant), unsealed(), over_limit_or_in_debt(),
            idempotency(tenant, digest) when digest;
    }
    args {
        day,
        tenant: &'a str,
        scope: &'a str,
        unit: &'a str,
        overdraft_limit: Option<i64>,
        payload_hash: &'a str,
        /// The request cause, lines of name and value.
        context: &'a str,
        /// A member of the request, the field of the record, then = and the value, or '' to remove the field.
        changes: Changes<'a>,
        /// Names and values of the audit entry, except the resource.
        audit: &'a [Pair],
    }
    replies {
        clock, idempotency_mismatch, replayed, tenant_unreadable, tenant_closed, not_found, corrupt, budget_closed,
        updated: Updated { record: FlatRecord },
    }
    writes "On updated: the ledger, its place in the index of those over their limit or in debt, events, the audit entry. \
Otherwise nothing."
}

signature! {
    /// Freezes a ledger, or ends that. A frozen one takes no new reservation, no usage event and no funding; what is reserved
    /// already can be committed.
    FREEZE_BUDGET: FreezeBudget -> FreezeBudgetReply = "admin/budgets/freeze_budget", flags "allow-oom";
    names { partition: Partition, digest: Option<&'a str> }
    keys of partition {
        write tenant_key: tenant(tenant), budget_key: budget(tenant, unit, scope), event_log: events(tenant, day), outbox(),
            days(), audit_log: audit(tenant, day), chain(tenant), unsealed(), counts(),
            idempotency(tenant, digest) when digest;
    }
    args {
        day,
        tenant: &'a str,
        scope: &'a str,
        unit: &'a str,
        /// FROZEN or ACTIVE.
        wanted: &'a str,
        reason: Option<&'a str>,
        payload_hash: &'a str,
        /// The request cause, lines of name and value.
        context: &'a str,
        /// Names and values of the audit entry, except the resource.
        audit: &'a [Pair],
    }
    replies {
        clock, idempotency_mismatch, replayed, tenant_unreadable, tenant_closed, not_found, corrupt, budget_closed,
        unchanged: Unchanged, changed: Changed { record: FlatRecord },
    }
    writes "On changed: the counts, the ledger, the event, the audit entry. Otherwise nothing."
}

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
        let changes = update.fields();
        let call = UpdateBudget {
            partition: ledger.tenant.partition(),
            digest: change.idempotency,
            tenant: ledger.tenant.as_str(),
            scope: ledger.scope.as_str(),
            unit: ledger.unit.as_str(),
            overdraft_limit: update.overdraft_limit.map(|limit| limit.value()),
            payload_hash: change.payload_hash,
            context: change.cause,
            changes: changes_of(&changes),
            audit: change.audit,
        };
        match self.run(&call).await? {
            Ok(UpdateBudgetReply::Updated { record }) => Ok(record.0),
            Err(Refused::NotFound) => Err(AdminRefusal::BudgetNotFound.into()),
            Err(refused) => Err(refused.into()),
        }
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
        let (wanted, unchanged) = match frozen {
            true => (BudgetStatus::Frozen, AdminRefusal::AlreadyFrozen),
            false => (BudgetStatus::Active, AdminRefusal::NotFrozen),
        };
        let call = FreezeBudget {
            partition: ledger.tenant.partition(),
            digest: change.idempotency,
            tenant: ledger.tenant.as_str(),
            scope: ledger.scope.as_str(),
            unit: ledger.unit.as_str(),
            wanted: wanted.as_str(),
            reason,
            payload_hash: change.payload_hash,
            context: change.cause,
            audit: change.audit,
        };
        match self.run(&call).await? {
            Ok(FreezeBudgetReply::Changed { record }) => Ok(record.0),
            Ok(FreezeBudgetReply::Unchanged) => Err(unchanged.into()),
            Err(Refused::NotFound) => Err(AdminRefusal::BudgetNotFound.into()),
            Err(refused) => Err(refused.into()),
        }
    }
}
