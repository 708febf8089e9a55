//! What the scripts of the admin plane have in common: the day keys, the refusals, and the audit entry of each change.

pub mod api_key_checks;
pub mod api_key_lists;
pub mod api_keys;
pub mod budget_lists;
pub mod budget_states;
pub mod budgets;
pub mod bulk;
pub mod bulk_rows;
pub mod closing;
pub(crate) mod events;
pub mod logs;
pub mod overview;
pub mod policies;
pub mod recent;
pub mod tenants;
pub mod thresholds;
pub mod webhook_deliveries;
pub mod webhook_lists;
pub mod webhook_replays;
pub mod webhook_security;
pub mod webhooks;

use super::{Arg, Lane, Store};
use crate::domain::caller::{Caller, Reader, RuntimeCaller};
use crate::domain::ids::{Partition, TenantId};
use crate::domain::moment::Moment;
use crate::domain::record::{Record, RecordError};
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::refusal::{BadKey, TooManyToSort};
use crate::driver::clock::Day;
use crate::driver::error::StoreError;
use crate::driver::reply::Reply;
use crate::driver::script::Script;
use crate::store::scripts::{ADMIN_ACCESS, AUDIT_FAILURE, GET_RECORD};

/// Names and values.
pub type Pairs = Vec<(&'static str, String)>;

/// Why an operation of the admin plane did not do what it is for.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// The request is refused; nothing was changed.
    #[error("refused: {0:?}")]
    Refused(AdminRefusal),
    /// The store could not answer, or answered nonsense.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A record cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
}

impl From<TooManyToSort> for AdminError {
    fn from(refusal: TooManyToSort) -> Self {
        Self::Refused(AdminRefusal::TooManyToSort(refusal))
    }
}

impl From<AdminRefusal> for AdminError {
    fn from(refusal: AdminRefusal) -> Self {
        Self::Refused(refusal)
    }
}

/// What every change carries besides its own values.
#[derive(Debug)]
pub struct Change<'a> {
    /// Lines of the cause, for events.
    pub cause: &'a str,
    /// The audit entry, all but what the script alone knows.
    pub audit: &'a Pairs,
    /// Digest of body and target.
    pub payload_hash: &'a str,
    /// Digest of operation and idempotency key, where the request has a key.
    pub idempotency: Option<&'a str>,
}

/// A record and the clock that it was read by.
#[derive(Debug)]
pub struct Stored {
    /// The script's clock, in milliseconds.
    pub now_ms: i64,
    /// The stored fields.
    pub record: Record,
}

/// A request that is asked again on another day is one around midnight; more often than this, the clocks are mad.
const DAYS_MAX: usize = 3;

impl Store {
    /// Whether a tenant's key may do what is asked, for a request that failed before its own script. `scope` is empty
    /// where the request has named none yet.
    ///
    /// # Errors
    /// [`AdminRefusal::Unauthorized`], [`AdminRefusal::Forbidden`] or [`AdminRefusal::ScopeForbidden`].
    pub async fn admin_access(
        &self,
        caller: &RuntimeCaller,
        permission: &str,
        scope: &str,
    ) -> Result<(), AdminError> {
        let (keys, partition) = (self.keys(), caller.partition);
        let key_names = [
            keys.api_key(partition, caller.key_id.as_str()),
            keys.tenant(partition, caller.tenant.as_str()),
        ];
        let args = [
            Arg::from(caller.key_hash.as_str()),
            Arg::from(caller.tenant.as_str()),
            Arg::from(permission),
            Arg::from(scope),
        ];
        let reply = self.call(&ADMIN_ACCESS, &key_names, &args).await?;
        let mut reply = Reply::new(&ADMIN_ACCESS, reply)?;
        match reply.next_str()?.as_str() {
            "granted" => Ok(()),
            other => Err(refused(other, reply)),
        }
    }

    /// Books a refused request with the tenant that it was to act on, if that exists, else with the sentinel. More than
    /// `per_minute` of one sentinel and minute are counted and summed up; that is for requests without a tenant.
    ///
    /// # Errors
    /// [`StoreError`]; the request's own outcome does not depend on it.
    pub async fn audit_failure(
        &self,
        partition: Partition,
        tenant: Option<&TenantId>,
        sentinel: &str,
        per_minute: Option<u32>,
        entry: &Pairs,
    ) -> Result<(), StoreError> {
        let (keys, tenant) = (self.keys(), tenant.map_or(sentinel, TenantId::as_str));
        let build = |day: Day| {
            let key_names = vec![
                keys.tenant(partition, tenant),
                keys.audit(partition, tenant, day),
                keys.chain(partition, tenant),
                keys.audit(partition, sentinel, day),
                keys.chain(partition, sentinel),
                keys.days(partition),
                keys.audit_failures(partition, sentinel),
                keys.audit_failures_due(partition),
                keys.unsealed(partition),
            ];
            let mut args = vec![tenant.to_owned(), sentinel.to_owned()];
            push_day(&mut args, day);
            args.push(per_minute.map_or_else(String::new, |bound| bound.to_string()));
            push_pairs(&mut args, entry);
            (key_names, args)
        };
        let (word, reply) = self.admin_call(&AUDIT_FAILURE, build).await?;
        match word.as_str() {
            "booked" => Ok(()),
            other => Err(reply.unknown(other)),
        }
    }

    /// A record as it is, `None` where there is none.
    pub(super) async fn get_record(&self, key: String) -> Result<Option<Stored>, StoreError> {
        let reply = self.call(&GET_RECORD, &[key], &[]).await?;
        let mut reply = Reply::new(&GET_RECORD, reply)?;
        match reply.next_str()?.as_str() {
            "found" => Ok(Some(Stored {
                now_ms: reply.next_i64()?,
                record: Record::from_pairs(reply.rest()?),
            })),
            "not_found" => Ok(None),
            other => Err(reply.unknown(other)),
        }
    }

    /// Runs a script with the keys and arguments of the day, again where the day was another; the status word and the rest.
    pub(super) async fn admin_call(
        &self,
        script: &Script,
        build: impl Fn(Day) -> (Vec<String>, Vec<String>),
    ) -> Result<(String, Reply), StoreError> {
        self.admin_call_on(Lane::Request, script, build).await
    }

    /// The same on the given lane.
    pub(super) async fn admin_call_on(
        &self,
        lane: Lane,
        script: &Script,
        build: impl Fn(Day) -> (Vec<String>, Vec<String>),
    ) -> Result<(String, Reply), StoreError> {
        let mut asked = 0;
        loop {
            let (keys, args) = build(self.today());
            let args: Vec<Arg<'_>> = args.iter().map(Arg::from).collect();
            let reply = self.call_on(lane, script, &keys, &args).await?;
            let mut reply = Reply::new(script, reply)?;
            let word = reply.next_str()?;
            asked += 1;
            if word != "clock" || asked == DAYS_MAX {
                return Ok((word, reply));
            }
        }
    }
}

/// The word of the outcome itself, where it is a stored one.
pub(super) fn outcome(word: String, reply: &mut Reply) -> Result<String, StoreError> {
    if word == "replayed" {
        return reply.next_str();
    }
    Ok(word)
}

/// What a script's word means that is no outcome.
pub(super) fn refused(word: &str, mut reply: Reply) -> AdminError {
    let mut read = || -> Result<AdminRefusal, StoreError> {
        Ok(match word {
            "unauthorized" => {
                let why = reply.next_str()?;
                AdminRefusal::Unauthorized(BadKey::parse(&why).ok_or_else(|| reply.unknown(&why))?)
            }
            "forbidden" => AdminRefusal::Forbidden(reply.next_str()?),
            "scope_forbidden" => AdminRefusal::ScopeForbidden,
            "idempotency_mismatch" => AdminRefusal::IdempotencyMismatch,
            "tenant_unreadable" => AdminRefusal::TenantUnreadable,
            "tenant_closed" => AdminRefusal::TenantClosed,
            "tenant_suspended" => AdminRefusal::TenantSuspended,
            "tenant_not_found" => AdminRefusal::OwnerNotFound,
            "budget_frozen" => AdminRefusal::BudgetFrozen,
            "budget_closed" => AdminRefusal::BudgetClosed,
            "budget_exceeded" => AdminRefusal::BudgetExceeded {
                remaining: reply.next_i64()?,
            },
            "out_of_range" => AdminRefusal::OutOfRange,
            "foreign" => AdminRefusal::ForeignBudget,
            "leaving_closed" => AdminRefusal::LeavingClosed,
            "key_revoked" => AdminRefusal::KeyRevoked,
            "expires_in_the_past" => AdminRefusal::ExpiresInThePast,
            "corrupt" => AdminRefusal::Corrupt(reply.next_str()?),
            other => return Err(reply.unknown(other)),
        })
    };
    match read() {
        Ok(refusal) => AdminError::Refused(refusal),
        Err(error) => AdminError::Store(error),
    }
}

/// For an operation that an admin key may do for a suspended tenant's kind but not create anything.
pub(super) fn creation_refused(caller: &Caller, word: &str, reply: Reply) -> AdminError {
    match (caller, word) {
        (Caller::Admin(_), "tenant_suspended") => {
            AdminError::Refused(AdminRefusal::TenantNotActive)
        }
        _ => refused(word, reply),
    }
}

/// The digest that a script compares, empty for trusted readers; and the key of the record, one that never exists for them.
pub(super) fn caller_words<'a>(reader: impl Into<Reader<'a>>) -> (&'a str, &'a str) {
    match reader.into() {
        Reader::Tenant(caller) => (caller.key_hash.as_str(), caller.key_id.as_str()),
        Reader::Trusted => ("", ""),
    }
}

/// The next element, a time in milliseconds.
pub(super) fn moment(reply: &mut Reply) -> Result<Moment, StoreError> {
    let ms = reply.next_i64()?;
    Moment::from_ms(ms).ok_or_else(|| reply.unknown(&ms.to_string()))
}

pub(super) fn push_day(args: &mut Vec<String>, day: Day) {
    args.push(day.to_string());
    args.push(day.start_ms().to_string());
}

pub(super) fn push_pairs(args: &mut Vec<String>, pairs: &Pairs) {
    for (name, value) in pairs {
        args.push((*name).to_owned());
        args.push(value.clone());
    }
}

/// The count of what follows, then names and values.
pub(super) fn push_counted(args: &mut Vec<String>, pairs: &Pairs) {
    args.push((pairs.len() * 2).to_string());
    push_pairs(args, pairs);
}
