//! The scripts of the runtime plane, and what their refusals mean.

pub mod balances;
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
use crate::domain::refusal::{Denial, Refusal};
use crate::domain::reservation::balance_at;
use crate::domain::scope::ScopePath;
use crate::driver::reply::unknown;
use crate::store::signature::{Refused, ScriptCall, Signature};
use crate::store::{Lane, Store, StoreError};

/// What a script answered: its outcome, a refusal, or what must be done before it is called again.
#[derive(Debug)]
pub enum Answer<T> {
    /// The script did what it is for, now or, for a replay, before.
    Done(T),
    /// The script wrote nothing, save the event of a denial.
    Refused(Refusal),
    /// Funds are short while holds are past their grace period: expire what was due by this time, then call again.
    SweepFirst {
        /// The script's clock, in milliseconds.
        now_ms: i64,
    },
    /// Other policies apply than those that the caller chose from: choose again, then call again.
    Stale {
        /// The script's clock, in milliseconds.
        now_ms: i64,
        /// The present version of the tenant's policies.
        version: String,
    },
}

impl Store {
    /// Runs a script on the request path; `read` makes the outcome of what it answered. `tenant`: for the refusals that name
    /// it.
    async fn answer<C: ScriptCall, T>(
        &self,
        call: &C,
        tenant: Option<&TenantId>,
        read: impl FnOnce(C::Outcome) -> Result<T, StoreError>,
    ) -> Result<Answer<T>, StoreError> {
        self.answer_on(Lane::Request, call, tenant, read).await
    }

    /// The same on a lane.
    async fn answer_on<C: ScriptCall, T>(
        &self,
        lane: Lane,
        call: &C,
        tenant: Option<&TenantId>,
        read: impl FnOnce(C::Outcome) -> Result<T, StoreError>,
    ) -> Result<Answer<T>, StoreError> {
        match self.run_on(lane, call).await? {
            Ok(outcome) => read(outcome).map(Answer::Done),
            Err(refused) => answer(refused, C::SIGNATURE, tenant),
        }
    }
}

/// What a refusal means on this plane.
fn answer<T>(
    refused: Refused,
    signature: &Signature,
    tenant: Option<&TenantId>,
) -> Result<Answer<T>, StoreError> {
    let unexpected = refused.unexpected(signature);
    let refusal = match (refused, tenant) {
        (Refused::Unauthorized { why }, _) => Refusal::Unauthorized(why),
        (Refused::Forbidden { permission }, _) => Refusal::Forbidden(permission),
        (Refused::ScopeForbidden, _) => Refusal::ScopeForbidden,
        (Refused::Foreign, _) => Refusal::ForeignReservation,
        (Refused::NotFound, _) => Refusal::NotFound,
        (Refused::IdempotencyMismatch, _) => Refusal::IdempotencyMismatch,
        (Refused::TenantUnreadable, _) => Refusal::TenantUnreadable,
        (Refused::TenantClosed, Some(tenant)) => Refusal::TenantClosed(tenant.clone()),
        (Refused::TenantSuspended, Some(tenant)) => Refusal::TenantSuspended(tenant.clone()),
        (Refused::Expired, _) => Refusal::Expired,
        (Refused::Finalized { status }, _) => Refusal::Finalized(status),
        (Refused::MaxExtensions { limit }, _) => Refusal::TooManyExtensions(limit),
        (Refused::UnitMismatch { scope, units }, _) => Refusal::UnitMismatch {
            scope,
            expected: units.0,
        },
        (Refused::BudgetNotFound, _) => Refusal::BudgetNotFound,
        (Refused::Inactive { status, scope }, _) => {
            let denial = match status.as_str() {
                "FROZEN" => Denial::BudgetFrozen,
                _ => Denial::BudgetClosed,
            };
            Refusal::Inactive { denial, scope }
        }
        (
            Refused::Denied {
                reason: denial,
                scope,
                remaining,
            },
            _,
        ) => Refusal::Denied {
            denial,
            scope,
            remaining,
        },
        (Refused::OverageRejected { scope, reserved }, _) => {
            Refusal::OverageRejected { scope, reserved }
        }
        (Refused::Corrupt { key }, _) => Refusal::Corrupt(key),
        (
            Refused::RateLimited {
                now_ms,
                until_ms,
                policy_id,
            },
            _,
        ) => Refusal::RateLimited {
            retry_in_ms: until_ms - now_ms,
            until_ms,
            policy_id,
        },
        (Refused::SweepFirst { now_ms }, _) => return Ok(Answer::SweepFirst { now_ms }),
        (Refused::Stale { now_ms, version }, _) => return Ok(Answer::Stale { now_ms, version }),
        _ => return Err(unexpected),
    };
    Ok(Answer::Refused(refusal))
}

/// The named fields of a record; `None` where the key holds no hash.
pub(super) fn fields_of(names: &[&str], values: Vec<Option<String>>) -> Option<Record> {
    (!values.is_empty() || names.is_empty()).then(|| Record::from_fields(names, values))
}

/// The ledgers at the given depths, each from its figures.
fn balances(
    signature: &Signature,
    path: &ScopePath,
    unit: Unit,
    depths: &str,
    snapshots: &[String],
) -> Result<Vec<Balance>, StoreError> {
    let depths = depths.split_whitespace();
    let pairs = depths.zip(snapshots.iter().map(Some).chain(std::iter::repeat(None)));
    let balance = |(depth, snapshot): (&str, Option<&String>)| {
        let found = snapshot.and_then(|snapshot| balance_at(path, unit, depth, snapshot));
        let text = snapshot.map_or("the end", String::as_str);
        found.ok_or_else(|| unknown(signature.script.name(), 0, text))
    };
    pairs.map(balance).collect()
}
