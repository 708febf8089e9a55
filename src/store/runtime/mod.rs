//! What the scripts of the runtime plane have in common: who calls, and the refusals that they answer with.

pub mod commit;
pub mod decide;
pub mod expire;
pub mod extend;
pub mod read;
pub mod release;
pub mod reserve;
pub mod usage_event;

use crate::domain::amount::Unit;
use crate::domain::budget::Balance;
use crate::domain::ids::TenantId;
use crate::domain::record::Record;
use crate::domain::refusal::{BadKey, Denial, Refusal};
use crate::domain::reservation::{Status, balance_at};
use crate::domain::scope::ScopePath;
use crate::driver::error::StoreError;
use crate::driver::reply::Reply;

/// What a script answered: its outcome, a refusal, or what must be done before it is asked again.
#[derive(Debug)]
pub enum Answer<T> {
    /// The script did what it is for, now or, for a replay, before.
    Done(T),
    /// The script wrote nothing, save the event of a denial.
    Refused(Refusal),
    /// Funds are short while holds past their grace stand: expire what was due by this time, then ask again.
    SweepFirst {
        /// The script's clock, in milliseconds.
        now_ms: i64,
    },
    /// The day keys were those of another day; the store's clock has been corrected, ask again.
    WrongDay,
    /// The policy was selected among others than the present ones, or for another time: select again, then ask again.
    Stale {
        /// The script's clock, in milliseconds.
        now_ms: i64,
        /// The present version of the tenant's policies.
        version: String,
    },
}

/// Reads what a script answers that heeds the status of a tenant, when that is not the outcome itself.
pub(super) fn refused_for<T>(
    tenant: &TenantId,
    word: &str,
    reply: Reply,
) -> Result<Answer<T>, StoreError> {
    let refusal = match word {
        "tenant_unreadable" => Refusal::TenantUnreadable,
        "tenant_closed" => Refusal::TenantClosed(tenant.clone()),
        "tenant_suspended" => Refusal::TenantSuspended(tenant.clone()),
        _ => return refused(word, reply),
    };
    Ok(Answer::Refused(refusal))
}

/// Reads an answer that is not the outcome itself: a refusal, or a word that asks for another call.
pub(super) fn refused<T>(word: &str, mut reply: Reply) -> Result<Answer<T>, StoreError> {
    let refusal = match word {
        "unauthorized" => {
            let why = reply.next_str()?;
            Refusal::Unauthorized(BadKey::parse(&why).ok_or_else(|| reply.unknown(&why))?)
        }
        "forbidden" => Refusal::Forbidden(reply.next_str()?),
        "scope_forbidden" => Refusal::ScopeForbidden,
        "foreign" => Refusal::ForeignReservation,
        "not_found" => Refusal::NotFound,
        "idempotency_mismatch" => Refusal::IdempotencyMismatch,
        "expired" => Refusal::Expired,
        "finalized" => {
            let status = reply.next_str()?;
            Refusal::Finalized(Status::parse(&status).ok_or_else(|| reply.unknown(&status))?)
        }
        "max_extensions" => Refusal::TooManyExtensions(reply.next_i64()?),
        "unit_mismatch" => {
            let scope = reply.next_str()?;
            let units = reply.next_str()?;
            let expected = units.split(' ').map(Unit::parse).collect::<Option<_>>();
            Refusal::UnitMismatch {
                scope,
                expected: expected.ok_or_else(|| reply.unknown(&units))?,
            }
        }
        "budget_not_found" => Refusal::BudgetNotFound,
        "inactive" => {
            let status = reply.next_str()?;
            let denial = match status.as_str() {
                "FROZEN" => Denial::BudgetFrozen,
                _ => Denial::BudgetClosed,
            };
            Refusal::Inactive {
                denial,
                scope: reply.next_str()?,
            }
        }
        "denied" => {
            let reason = reply.next_str()?;
            Refusal::Denied {
                denial: Denial::parse(&reason).ok_or_else(|| reply.unknown(&reason))?,
                scope: reply.next_str()?,
                remaining: reply.next_i64()?,
            }
        }
        "overage_rejected" => Refusal::OverageRejected {
            scope: reply.next_str()?,
            reserved: reply.next_i64()?,
        },
        "corrupt" => Refusal::Corrupt(reply.next_str()?),
        "sweep_first" => {
            let now_ms = reply.next_i64()?;
            return Ok(Answer::SweepFirst { now_ms });
        }
        "clock" => return Ok(Answer::WrongDay),
        "stale" => {
            return Ok(Answer::Stale {
                now_ms: reply.next_i64()?,
                version: reply.next_str()?,
            });
        }
        "rate_limited" => {
            let now_ms = reply.next_i64()?;
            let until_ms = reply.next_i64()?;
            Refusal::RateLimited {
                retry_in_ms: until_ms - now_ms,
                until_ms,
                policy_id: reply.next_str()?,
            }
        }
        other => return Err(reply.unknown(other)),
    };
    Ok(Answer::Refused(refusal))
}

/// The stored fields of a record, the reply's next element.
pub(super) fn record(reply: &mut Reply) -> Result<Record, StoreError> {
    Ok(Record::from_pairs(reply.next_array()?.rest()?))
}

/// The named fields of a record, the reply's next element; `None` where the key holds no hash.
pub(super) fn fields(reply: &mut Reply, names: &[&str]) -> Result<Option<Record>, StoreError> {
    let mut found = reply.next_array()?;
    let mut values = Vec::with_capacity(found.len());
    while !found.is_empty() {
        values.push(found.opt_str()?);
    }
    Ok((!values.is_empty() || names.is_empty()).then(|| Record::from_fields(names, values)))
}

/// The ledgers at the given depths, one element of the reply each, to its end.
pub(super) fn balances(
    reply: &mut Reply,
    path: &ScopePath,
    unit: Unit,
    depths: &str,
) -> Result<Vec<Balance>, StoreError> {
    depths
        .split_whitespace()
        .map(|depth| {
            let snapshot = reply.next_str()?;
            balance_at(path, unit, depth, &snapshot).ok_or_else(|| reply.unknown(&snapshot))
        })
        .collect()
}
