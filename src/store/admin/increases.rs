//! `increase.lua`: begins and ends temporary increases.

use crate::domain::caller::ScriptCaller;
use crate::domain::ids::TenantId;
use crate::store::admin::Change;
use crate::store::signature::{FlatRecord, signature};

signature! {
    /// Raises what is allocated to a ledger for a time, or ends that early.
    ///
    /// The audit entry gets the resource.
    INCREASE: Increase -> IncreaseReply = "admin/budgets/increase";
    names { caller: ScriptCaller<'a>, key_id of caller }
    change of tenant {
        read api_key(key_id);
        write tenant_key: tenant(tenant), budget_key: budget(tenant, unit, scope), over_limit_or_in_debt(), turns();
    }
    args {
        day,
        key_hash of caller,
        tenant: &'a TenantId,
        scope: &'a str,
        unit: &'a str,
        /// Whether the scope is another tenant's.
        foreign: bool,
        until_ms: Option<i64>,
        increase_id: &'a str,
        /// Of one that begins; none ends that of the id.
        amount: Option<i64>,
        /// When one that begins ends, in milliseconds, and what the ledger keeps of it.
        end_ms: Option<i64>,
        kept: Option<String>,
        reason: Option<&'a str>,
        /// How many a ledger may have.
        limit: u32,
    }
    replies {
        unauthorized, forbidden, scope_forbidden, clock, idempotency_mismatch, replayed, tenant_unreadable, tenant_closed,
        tenant_suspended, foreign_budget, budget_not_found, budget_frozen, budget_closed, corrupt, turn_first,
        until_out_of_range, too_many, increase_not_found, out_of_range,
        increased: Increased { increase_id: String, record: FlatRecord },
    }
    writes "On increased: the ledger, its places in the index of those over their limit or in debt and of those that turn, events, the audit \
entry. Otherwise nothing."
}
