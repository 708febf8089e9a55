//! `create_budget.lua`, `fund.lua` and `lookup_budget.lua`.

use crate::domain::amount::{Amount, Unit};
use crate::domain::budget::funding::FundingOperation;
use crate::domain::caller::Caller;
use crate::domain::ids::{Partition, TenantId};
use crate::domain::moment::Moment;
use crate::domain::record::Record;
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::scope::ScopePath;
use crate::driver::error::StoreError;
use crate::driver::reply::{FromReply, Reply};
use crate::driver::script::Counted;
use crate::store::admin::{AdminError, Change, Pairs, caller_words, creation_refused};
use crate::store::signature::{FlatRecord, Refused, signature};
use crate::store::{Pair, Store};

signature! {
    /// Opens the ledger of one scope and unit.
    CREATE_BUDGET: CreateBudget -> CreateBudgetReply = "admin/budgets/create_budget";
    names { partition: Partition, key_id: &'a str, digest: Option<&'a str> }
    keys of partition {
        read api_key(key_id);
        write tenant_key: tenant(tenant), budget(tenant, unit, scope), budgets(tenant), event_log: events(tenant, day),
            outbox(), days(), audit_log: audit(tenant, day), chain(tenant), unsealed(), counts(),
            idempotency(tenant, digest) when digest;
    }
    args {
        day,
        /// Empty for the admin key.
        key_hash: &'a str,
        tenant: &'a str,
        scope: &'a str,
        unit: &'a str,
        /// Of budgets.
        member: String,
        ledger_id: &'a str,
        allocated: i64,
        overdraft_limit: i64,
        payload_hash: &'a str,
        /// The request cause, lines of name and value.
        context: &'a str,
        /// Names and values that only the record keeps.
        fields: Counted<&'a [Pair]>,
        /// Names and values of the audit entry.
        audit: &'a [Pair],
    }
    replies {
        unauthorized, forbidden, scope_forbidden, clock, idempotency_mismatch, replayed, tenant_unreadable, tenant_closed,
        tenant_suspended, tenant_not_found, duplicate: Duplicate, created: Created { record: FlatRecord },
    }
    writes "On created: the counts, the ledger, the tenant's list, the event, the audit entry. Otherwise nothing."
}

signature! {
    /// Moves what a ledger has been allocated, has spent or owes.
    FUND: Fund -> FundReply = "admin/budgets/fund";
    names { partition: Partition, key_id: &'a str, digest: Option<&'a str> }
    keys of partition {
        read api_key(key_id);
        write tenant_key: tenant(tenant), budget_key: budget(tenant, unit, scope), event_log: events(tenant, day), outbox(),
            days(), audit_log: audit(tenant, day), chain(tenant), unsealed(), over_limit_or_in_debt(),
            idempotency(tenant, digest) when digest;
    }
    args {
        day,
        /// Empty for the admin key.
        key_hash: &'a str,
        tenant: &'a str,
        scope: &'a str,
        unit: &'a str,
        operation: &'a str,
        amount: i64,
        /// What RESET_SPENT starts from.
        spent: Option<i64>,
        reason: Option<&'a str>,
        /// Whether the scope is another tenant's.
        foreign: bool,
        payload_hash: &'a str,
        /// The request cause, lines of name and value.
        context: &'a str,
        /// Names and values of the audit entry.
        audit: &'a [Pair],
    }
    replies {
        unauthorized, forbidden, scope_forbidden, clock, idempotency_mismatch, replayed, tenant_unreadable, tenant_closed,
        tenant_suspended, foreign, not_found, budget_frozen: BudgetFrozen, budget_closed, corrupt,
        budget_exceeded: BudgetExceeded { remaining: i64 }, out_of_range: OutOfRange,
        funded: Funded { at: Moment, allocated: Moved, remaining: Moved, debt: Moved, spent: Moved },
    }
    writes "On funded: the ledger and its base, its place in the index of those over their limit or in debt, events, the audit \
entry. Otherwise nothing."
}

signature! {
    /// Reads one ledger.
    LOOKUP_BUDGET: LookupBudget -> LookupBudgetReply = "admin/budgets/lookup_budget", flags "no-writes,allow-oom";
    names { partition: Partition, key_id: &'a str, unit: &'a str }
    keys of partition { read api_key(key_id), tenant_key: tenant(tenant), budget(tenant, unit, scope); }
    args {
        /// Empty for the admin key.
        key_hash: &'a str,
        tenant: &'a str,
        scope: &'a str,
        /// Whether the scope is another tenant's.
        foreign: bool,
    }
    replies { unauthorized, forbidden, scope_forbidden, foreign, not_found, found: Found { record: FlatRecord } }
    writes "Nothing."
}

/// A ledger to be opened.
#[derive(Debug)]
pub struct LedgerRecord<'a> {
    /// Whose ledger.
    pub tenant: &'a TenantId,
    /// Made by the service.
    pub ledger_id: &'a str,
    /// Of that tenant.
    pub scope: &'a ScopePath,
    /// What may be spent.
    pub allocated: Amount,
    /// How much debt is allowed, in the same unit.
    pub overdraft_limit: i64,
    /// What only the record keeps.
    pub fields: &'a Pairs,
}

/// A funding operation.
#[derive(Debug)]
pub struct FundingRequest<'a> {
    /// The effective tenant.
    pub tenant: &'a TenantId,
    /// Whose ledger; perhaps of another tenant, which is refused in its turn.
    pub scope: &'a ScopePath,
    /// Whether it is of another tenant.
    pub foreign: bool,
    /// What is done.
    pub operation: FundingOperation,
    /// By how much.
    pub amount: Amount,
    /// What RESET_SPENT starts from; `None`: nothing was said, so 0.
    pub spent: Option<i64>,
    /// Told by event and audit entry.
    pub reason: Option<&'a str>,
}

/// A figure before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// Before.
    pub previous: i64,
    /// After.
    pub new: i64,
}

/// Before, then after.
impl FromReply for Moved {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        let (previous, new) = FromReply::from_reply(reply)?;
        Ok(Self { previous, new })
    }
}

/// What a funding operation made of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FundedLedger {
    /// The script's clock; of the first request where this is a replay.
    pub at: Moment,
    /// What may be spent in all.
    pub allocated: Moved,
    /// What is left to reserve.
    pub remaining: Moved,
    /// What was charged beyond the funds.
    pub debt: Moved,
    /// What was charged.
    pub spent: Moved,
}

impl Store {
    /// Opens a ledger and returns its record.
    ///
    /// # Errors
    /// Refusals: of the key; tenant closed, unknown or suspended; a ledger that is there already.
    pub async fn create_budget(
        &self,
        caller: &Caller,
        ledger: &LedgerRecord<'_>,
        change: &Change<'_>,
    ) -> Result<Record, AdminError> {
        let unit = ledger.allocated.unit();
        let (key_hash, key_id) = caller_words(caller);
        let call = CreateBudget {
            partition: ledger.tenant.partition(),
            key_id,
            digest: change.idempotency,
            key_hash,
            tenant: ledger.tenant.as_str(),
            scope: ledger.scope.as_str(),
            unit: unit.as_str(),
            member: format!("{} {} {unit}", ledger.scope, unit.index()),
            ledger_id: ledger.ledger_id,
            allocated: ledger.allocated.value(),
            overdraft_limit: ledger.overdraft_limit,
            payload_hash: change.payload_hash,
            context: change.cause,
            fields: Counted(ledger.fields),
            audit: change.audit,
        };
        match self.run(&call).await? {
            Ok(CreateBudgetReply::Created { record }) => Ok(record.0),
            Ok(CreateBudgetReply::Duplicate) => Err(AdminRefusal::DuplicateBudget.into()),
            Err(refused) => Err(creation_refused(caller, refused)),
        }
    }

    /// Funds a ledger.
    ///
    /// # Errors
    /// Refusals: of the key; tenant closed; a foreign, unknown, frozen or closed ledger; too little left; a figure out of
    /// range.
    pub async fn fund_budget(
        &self,
        caller: &Caller,
        funding: &FundingRequest<'_>,
        change: &Change<'_>,
    ) -> Result<FundedLedger, AdminError> {
        let (key_hash, key_id) = caller_words(caller);
        let call = Fund {
            partition: funding.tenant.partition(),
            key_id,
            digest: change.idempotency,
            key_hash,
            tenant: funding.tenant.as_str(),
            scope: funding.scope.as_str(),
            unit: funding.amount.unit().as_str(),
            operation: funding.operation.as_str(),
            amount: funding.amount.value(),
            spent: funding.spent,
            reason: funding.reason,
            foreign: funding.foreign,
            payload_hash: change.payload_hash,
            context: change.cause,
            audit: change.audit,
        };
        match self.run(&call).await? {
            Ok(FundReply::Funded {
                at,
                allocated,
                remaining,
                debt,
                spent,
            }) => Ok(FundedLedger {
                at,
                allocated,
                remaining,
                debt,
                spent,
            }),
            Ok(FundReply::BudgetFrozen) => Err(AdminRefusal::BudgetFrozen.into()),
            Ok(FundReply::BudgetExceeded { remaining }) => {
                Err(AdminRefusal::BudgetExceeded { remaining }.into())
            }
            Ok(FundReply::OutOfRange) => Err(AdminRefusal::OutOfRange.into()),
            Err(Refused::NotFound) => Err(AdminRefusal::BudgetNotFound.into()),
            Err(refused) => Err(refused.into()),
        }
    }

    /// Reads one ledger. `tenant` is the key's, or, for the admin key, the scope's.
    ///
    /// # Errors
    /// Refusals: of the key; a foreign or unknown ledger.
    pub async fn lookup_budget(
        &self,
        caller: &Caller,
        tenant: &TenantId,
        scope: &ScopePath,
        unit: Unit,
        foreign: bool,
    ) -> Result<Record, AdminError> {
        let (key_hash, key_id) = caller_words(caller);
        let call = LookupBudget {
            partition: tenant.partition(),
            key_id,
            unit: unit.as_str(),
            key_hash,
            tenant: tenant.as_str(),
            scope: scope.as_str(),
            foreign,
        };
        match self.run(&call).await? {
            Ok(LookupBudgetReply::Found { record }) => Ok(record.0),
            Err(Refused::NotFound) => Err(AdminRefusal::BudgetNotFound.into()),
            Err(refused) => Err(refused.into()),
        }
    }
}
