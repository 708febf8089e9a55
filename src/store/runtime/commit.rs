//! `commit.lua`: ends an active reservation with a charge.

use super::{Answer, balances};
use crate::domain::amount::{Amount, Unit};
use crate::domain::budget::Balance;
use crate::domain::caller::RuntimeCaller;
use crate::domain::ids::{Partition, ReservationId};
use crate::domain::record::Record;
use crate::domain::scope::ScopePath;
use crate::store::signature::{ScriptCall, signature};
use crate::store::{Call, Pair, Store, StoreError};

signature! {
    /// Ends an active reservation with a charge. What was spent is charged, the rest of the hold returns. What goes beyond
    /// the hold is charged as the overage policy of the reservation allows.
    COMMIT: Commit -> CommitReply = "runtime/commit", flags "allow-oom";
    names { partition: Partition, key_id: &'a str }
    keys of partition {
        read api_key(key_id);
        write tenant_key: tenant(tenant), reservation(reservation_id), due(tenant), event_log: events(tenant, day),
            outbox(), days(), over_limit_or_in_debt();
    }
    builds { write budget, rates }
    args {
        day,
        key_hash: &'a str,
        tenant: &'a str,
        payload_hash: &'a str,
        unit: &'a str,
        actual: i64,
        /// Of the idempotency key.
        key_digest: &'a str,
        budget_prefix = budget_prefix(tenant),
        /// Holds that were due by then have been expired for this request.
        swept_until_ms: Option<i64>,
        reservation_id: &'a str,
        /// The request cause, lines of name and value.
        context: &'a str,
        rates = rates(tenant),
        /// Names and values that the record keeps.
        kept: &'a [Pair],
    }
    replies {
        unauthorized, forbidden, clock, not_found, foreign, scope_forbidden, idempotency_mismatch,
        replayed: Replayed { now_ms: i64, record: Record },
        tenant_unreadable, tenant_closed, expired, finalized, unit_mismatch, corrupt, overage_rejected, sweep_first, denied,
        committed: Committed {
            now_ms: i64, unit: Unit, charged: i64, released: i64, depths: String, scope_path: ScopePath, snapshots: Vec<String>,
        },
    }
    writes "On committed: the reservation, its due time, the ledgers, their place in the index of those over their limit or in \
debt, events, and the rates where a policy counts commits. Otherwise nothing."
}

/// A commit to be made.
#[derive(Debug)]
pub struct Settlement<'a> {
    /// Which reservation.
    pub reservation_id: &'a ReservationId,
    /// What was really used.
    pub actual: Amount,
    /// Digest of the canonical body.
    pub payload_hash: &'a str,
    /// Digest of the idempotency key.
    pub key_digest: &'a str,
    /// Lines of the cause, for events.
    pub cause: &'a str,
    /// Names and values that only the record keeps.
    pub kept: &'a [(&'static str, String)],
    /// Holds due by this time have been expired already; none at the first call.
    pub swept_until_ms: Option<i64>,
}

/// What `commit.lua` did, or did when it was asked first.
#[derive(Debug)]
pub enum Committed {
    /// The charge is booked.
    Now {
        /// What all amounts count.
        unit: Unit,
        /// What was charged.
        charged: i64,
        /// What of the hold returned.
        released: i64,
        /// The ledgers of the reservation after the charge, root first.
        balances: Vec<Balance>,
    },
    /// The record that the first request left.
    Before(Record),
}

impl Store {
    /// Runs `commit.lua` once.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn commit(
        &self,
        caller: &RuntimeCaller,
        settlement: &Settlement<'_>,
    ) -> Result<Answer<Committed>, StoreError> {
        let call = commit(caller, settlement);
        self.answer(&call, Some(&caller.tenant), |outcome| {
            Ok(match outcome {
                CommitReply::Committed {
                    unit,
                    charged,
                    released,
                    depths,
                    scope_path,
                    snapshots,
                    ..
                } => Committed::Now {
                    unit,
                    charged,
                    released,
                    balances: balances(&COMMIT, &scope_path, unit, &depths, &snapshots)?,
                },
                CommitReply::Replayed { record, .. } => Committed::Before(record),
            })
        })
        .await
    }

    /// The call of `commit.lua`.
    pub fn commit_call(&self, caller: &RuntimeCaller, settlement: &Settlement<'_>) -> Call {
        commit(caller, settlement).on(self.keys(), self.today())
    }
}

fn commit<'a>(caller: &'a RuntimeCaller, settlement: &'a Settlement<'a>) -> Commit<'a> {
    Commit {
        partition: caller.partition,
        key_id: caller.key_id.as_str(),
        key_hash: caller.key_hash.as_str(),
        tenant: caller.tenant.as_str(),
        payload_hash: settlement.payload_hash,
        unit: settlement.actual.unit().as_str(),
        actual: settlement.actual.value(),
        key_digest: settlement.key_digest,
        swept_until_ms: settlement.swept_until_ms,
        reservation_id: settlement.reservation_id.as_str(),
        context: settlement.cause,
        kept: settlement.kept,
    }
}
