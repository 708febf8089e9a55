//! The scripts of one ledger: `create_budget.lua`, `fund.lua`, `lookup_budget.lua`, `update_budget.lua`, `freeze_budget.lua`.

use crate::domain::caller::ScriptCaller;
use crate::domain::ids::TenantId;
use crate::domain::moment::Moment;
use crate::domain::policy::PolicyId;
use crate::driver::error::StoreError;
use crate::driver::reply::{FromReply, Reply};
use crate::driver::script::Counted;
use crate::store::Pair;
use crate::store::admin::{Change, Changes};
use crate::store::signature::{FlatRecord, signature};

signature! {
    /// Opens the ledger of one scope and unit.
    CREATE_BUDGET: CreateBudget -> CreateBudgetReply = "admin/budgets/create_budget";
    names { caller: ScriptCaller<'a>, key_id of caller }
    change of tenant {
        read api_key(key_id);
        write tenant_key: tenant(tenant), budget(tenant, unit, scope), budgets(tenant), counts(), turns();
    }
    args {
        day,
        key_hash of caller,
        tenant: &'a TenantId,
        scope: &'a str,
        unit: &'a str,
        /// The entry in the index `budgets`.
        member: String,
        ledger_id: &'a str,
        allocated: i64,
        overdraft_limit: i64,
        /// Budgets that the tenant may have.
        limit: u32,
        /// When it turns first, for one that is used at once.
        turns_at_ms: Option<i64>,
        /// The policy whose template it follows.
        policy_id: Option<&'a PolicyId>,
        /// The version of the tenant's policies from which it was chosen, and from when until when it applies; 0 without one.
        policies_version: &'a str,
        policy_from_ms: i64,
        policy_until_ms: i64,
        /// Names and values that only the record keeps.
        fields: Counted<&'a [Pair]>,
    }
    replies {
        unauthorized, forbidden, scope_forbidden, clock, idempotency_mismatch, replayed, tenant_unreadable, tenant_closed,
        tenant_suspended, owner_not_found, stale, duplicate_budget, too_many, created: Created { record: FlatRecord },
    }
    writes "On created: the counts, the ledger, its place in the index of those that turn, the tenant's list, the event, the audit entry. \
Otherwise nothing."
}

signature! {
    /// Moves what a ledger has been allocated, has spent or owes.
    FUND: Fund -> FundReply = "admin/budgets/fund";
    names { caller: ScriptCaller<'a>, key_id of caller }
    change of tenant {
        read api_key(key_id);
        write tenant_key: tenant(tenant), budget_key: budget(tenant, unit, scope), over_limit_or_in_debt(),
            idempotency_due();
    }
    args {
        day,
        key_hash of caller,
        tenant: &'a TenantId,
        scope: &'a str,
        unit: &'a str,
        operation: &'a str,
        amount: i64,
        /// The value that RESET_SPENT sets.
        spent: Option<i64>,
        reason: Option<&'a str>,
        /// Whether the scope is another tenant's.
        foreign: bool,
        until_ms: Option<i64>,
    }
    replies {
        unauthorized, forbidden, scope_forbidden, clock, idempotency_mismatch, replayed, tenant_unreadable, tenant_closed,
        tenant_suspended, foreign_budget, budget_not_found, budget_frozen, budget_closed, corrupt, turn_first,
        budget_exceeded, out_of_range,
        funded: Funded { at: Moment, allocated: FigureChange, remaining: FigureChange, debt: FigureChange, spent: FigureChange },
    }
    writes "On funded: the ledger and its base, its place in the index of those over their limit or in debt, events, the audit \
entry. Otherwise nothing."
}

signature! {
    /// Reads one ledger.
    LOOKUP_BUDGET: LookupBudget -> LookupBudgetReply = "admin/budgets/lookup_budget", flags "no-writes,allow-oom";
    names { caller: ScriptCaller<'a>, key_id of caller, unit: &'a str }
    keys of partition of tenant { read api_key(key_id), tenant_key: tenant(tenant), budget(tenant, unit, scope); }
    args {
        key_hash of caller,
        tenant: &'a TenantId,
        scope: &'a str,
        /// Whether the scope is another tenant's.
        foreign: bool,
    }
    replies { unauthorized, forbidden, scope_forbidden, foreign_budget, budget_not_found, found: Found { record: FlatRecord } }
    writes "Nothing."
}

signature! {
    /// Changes what an operator set on a ledger, and computes anew whether it is over its limit.
    ///
    /// The audit entry gets the resource.
    UPDATE_BUDGET: UpdateBudget -> UpdateBudgetReply = "admin/budgets/update_budget";
    change of tenant {
        write tenant_key: tenant(tenant), budget_key: budget(tenant, unit, scope), over_limit_or_in_debt(), turns();
    }
    args {
        day,
        tenant: &'a TenantId,
        scope: &'a str,
        unit: &'a str,
        overdraft_limit: Option<i64>,
        until_ms: Option<i64>,
        /// Of a period that is set, start and end of the present one; `none` if it is removed.
        bounds: Option<String>,
        /// The limits that replace the present ones; `none` if they are removed.
        limits: Option<String>,
        changes: Changes,
    }
    replies {
        clock, idempotency_mismatch, replayed, tenant_unreadable, tenant_closed, budget_not_found, corrupt, budget_closed, turn_first,
        carry_limit_alone,
        updated: Updated { record: FlatRecord },
    }
    writes "On updated: the ledger, its places in the index of those over their limit or in debt and of those that turn, events, the audit entry. \
Otherwise nothing."
}

signature! {
    /// Freezes a ledger, or ends that. A frozen one takes no new reservation, no usage event and no funding; what is reserved
    /// already can be committed.
    ///
    /// The audit entry gets the resource.
    FREEZE_BUDGET: FreezeBudget -> FreezeBudgetReply = "admin/budgets/freeze_budget", flags "allow-oom";
    change of tenant {
        write tenant_key: tenant(tenant), budget_key: budget(tenant, unit, scope), counts();
    }
    args {
        day,
        tenant: &'a TenantId,
        scope: &'a str,
        unit: &'a str,
        /// FROZEN or ACTIVE.
        wanted: &'a str,
        reason: Option<&'a str>,
    }
    replies {
        clock, idempotency_mismatch, replayed, tenant_unreadable, tenant_closed, budget_not_found, corrupt, budget_closed,
        unchanged: Unchanged, changed: Changed { record: FlatRecord },
    }
    writes "On changed: the counts, the ledger, the event, the audit entry. Otherwise nothing."
}

/// A figure before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FigureChange {
    /// Before.
    pub previous: i64,
    /// After.
    pub new: i64,
}

/// Before, then after.
impl FromReply for FigureChange {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        let (previous, new) = FromReply::from_reply(reply)?;
        Ok(Self { previous, new })
    }
}
