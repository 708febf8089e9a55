//! `create_budget.lua`, `fund.lua` and `lookup_budget.lua`.

use crate::domain::amount::{Amount, Unit};
use crate::domain::budget::funding::FundingOperation;
use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;
use crate::domain::moment::Moment;
use crate::domain::record::Record;
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::scope::ScopePath;
use crate::driver::clock::Day;
use crate::driver::reply::Reply;
use crate::store::Store;
use crate::store::admin::{
    AdminError, Change, Pairs, caller_words, creation_refused, moment, outcome, push_counted,
    push_day, push_pairs, refused,
};
use crate::store::scripts::{CREATE_BUDGET, FUND, LOOKUP_BUDGET};
use crate::store::{Arg, StoreError};

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
        let (keys, unit) = (self.keys(), ledger.allocated.unit());
        let (tenant, partition) = (ledger.tenant.as_str(), ledger.tenant.partition());
        let (key_hash, key_id) = caller_words(caller);
        let build = |day: Day| {
            let mut key_names = vec![
                keys.api_key(partition, key_id),
                keys.tenant(partition, tenant),
                keys.budget(partition, tenant, unit.as_str(), ledger.scope.as_str()),
                keys.budgets(partition, tenant),
                keys.events(partition, tenant, day),
                keys.outbox(partition),
                keys.days(partition),
                keys.audit(partition, tenant, day),
                keys.chain(partition, tenant),
                keys.unsealed(partition),
                keys.counts(partition),
            ];
            key_names.extend(
                change
                    .idempotency
                    .map(|key| keys.idempotency(partition, tenant, key)),
            );
            let mut args = vec![key_hash.to_owned(), tenant.to_owned()];
            push_day(&mut args, day);
            let member = format!("{} {} {unit}", ledger.scope, unit.index());
            args.extend(
                [
                    ledger.scope.as_str(),
                    unit.as_str(),
                    &member,
                    ledger.ledger_id,
                ]
                .map(str::to_owned),
            );
            args.extend([
                ledger.allocated.value().to_string(),
                ledger.overdraft_limit.to_string(),
            ]);
            // The overage policy is among the fields.
            args.extend(["", change.payload_hash, change.cause].map(str::to_owned));
            push_counted(&mut args, ledger.fields);
            push_pairs(&mut args, change.audit);
            (key_names, args)
        };
        let (word, mut reply) = self.admin_call(&CREATE_BUDGET, build).await?;
        match outcome(word, &mut reply)?.as_str() {
            "created" => Ok(Record::from_pairs(reply.rest()?)),
            "duplicate" => Err(AdminError::Refused(AdminRefusal::DuplicateBudget)),
            other => Err(creation_refused(caller, other, reply)),
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
        let (keys, unit) = (self.keys(), funding.amount.unit());
        let (tenant, partition) = (funding.tenant.as_str(), funding.tenant.partition());
        let (key_hash, key_id) = caller_words(caller);
        let build = |day: Day| {
            let mut key_names = vec![
                keys.api_key(partition, key_id),
                keys.tenant(partition, tenant),
                keys.budget(partition, tenant, unit.as_str(), funding.scope.as_str()),
                keys.events(partition, tenant, day),
                keys.outbox(partition),
                keys.days(partition),
                keys.audit(partition, tenant, day),
                keys.chain(partition, tenant),
                keys.unsealed(partition),
                keys.over_limit_or_in_debt(partition),
            ];
            key_names.extend(
                change
                    .idempotency
                    .map(|key| keys.idempotency(partition, tenant, key)),
            );
            let mut args = vec![key_hash.to_owned(), tenant.to_owned()];
            push_day(&mut args, day);
            args.extend(
                [
                    funding.scope.as_str(),
                    unit.as_str(),
                    funding.operation.as_str(),
                ]
                .map(str::to_owned),
            );
            args.push(funding.amount.value().to_string());
            args.push(
                funding
                    .spent
                    .map(|spent| spent.to_string())
                    .unwrap_or_default(),
            );
            args.push(funding.reason.unwrap_or_default().to_owned());
            args.push(if funding.foreign { "1" } else { "0" }.to_owned());
            args.extend([change.payload_hash, change.cause].map(str::to_owned));
            push_pairs(&mut args, change.audit);
            (key_names, args)
        };
        let (word, mut reply) = self.admin_call(&FUND, build).await?;
        match outcome(word, &mut reply)?.as_str() {
            "funded" => Ok(funded(&mut reply)?),
            "not_found" => Err(AdminError::Refused(AdminRefusal::BudgetNotFound)),
            other => Err(refused(other, reply)),
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
        let (keys, partition, tenant) = (self.keys(), tenant.partition(), tenant.as_str());
        let (key_hash, key_id) = caller_words(caller);
        let key_names = [
            keys.api_key(partition, key_id),
            keys.tenant(partition, tenant),
            keys.budget(partition, tenant, unit.as_str(), scope.as_str()),
        ];
        let args = [
            Arg::from(key_hash),
            Arg::from(tenant),
            Arg::from(scope.as_str()),
            Arg::from(foreign),
        ];
        let reply = self.call(&LOOKUP_BUDGET, &key_names, &args).await?;
        let mut reply = Reply::new(&LOOKUP_BUDGET, reply)?;
        match reply.next_str()?.as_str() {
            "found" => Ok(Record::from_pairs(reply.rest()?)),
            "not_found" => Err(AdminError::Refused(AdminRefusal::BudgetNotFound)),
            other => Err(refused(other, reply)),
        }
    }
}

fn funded(reply: &mut Reply) -> Result<FundedLedger, StoreError> {
    let at = moment(reply)?;
    let mut moved = || -> Result<Moved, StoreError> {
        Ok(Moved {
            previous: reply.next_i64()?,
            new: reply.next_i64()?,
        })
    };
    Ok(FundedLedger {
        at,
        allocated: moved()?,
        remaining: moved()?,
        debt: moved()?,
        spent: moved()?,
    })
}
