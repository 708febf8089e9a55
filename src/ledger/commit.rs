//! Committing: what was spent is charged, the rest of the hold returns.

use super::{Ledger, LedgerError, facts};
use crate::domain::action::Metrics;
use crate::domain::amount::{Amount, Unit};
use crate::domain::budget::Balance;
use crate::domain::caller::RuntimeCaller;
use crate::domain::cause::Cause;
use crate::domain::ids::{IdempotencyKey, ReservationId};
use crate::domain::json::FreeObject;
use crate::domain::payload_hash::PayloadHash;
use crate::store::runtime::commit as store;

/// A settlement that is asked for.
#[derive(Debug)]
pub struct Commit {
    /// Which reservation.
    pub reservation_id: ReservationId,
    /// Chosen by the client.
    pub idempotency_key: IdempotencyKey,
    /// Digest of the canonical body.
    pub payload_hash: PayloadHash,
    /// What was really used.
    pub actual: Amount,
    /// What the client measured.
    pub metrics: Option<Metrics>,
    /// The client's own.
    pub metadata: Option<FreeObject>,
}

/// What was booked.
#[derive(Debug)]
pub struct Committed {
    /// What all amounts count.
    pub unit: Unit,
    /// What was charged; less than was used where a policy capped it.
    pub charged: i64,
    /// What of the hold returned.
    pub released: i64,
    /// The ledgers of the reservation after it.
    pub balances: Vec<Balance>,
}

impl Ledger {
    /// Settles an active reservation. Repeating it under one key charges once.
    ///
    /// # Errors
    /// [`crate::domain::refusal::Refusal`] in the order of precedence of `lua/runtime/commit.lua`.
    pub async fn commit(
        &self,
        caller: &RuntimeCaller,
        commit: &Commit,
        cause: &Cause,
    ) -> Result<Committed, LedgerError> {
        self.refuse_foreign(caller, &commit.reservation_id, "reservations:commit")
            .await?;
        let mut kept = Vec::new();
        facts::keep_metrics(&mut kept, commit.metrics.as_ref());
        facts::keep(&mut kept, "committed_metadata", commit.metadata.as_ref());
        let (cause, key_digest) = (cause.lines(), commit.idempotency_key.digest());
        let mut attempts = self.attempts(&caller.tenant);
        let committed = loop {
            let settlement = store::Settlement {
                reservation_id: &commit.reservation_id,
                actual: commit.actual,
                payload_hash: commit.payload_hash.as_str(),
                key_digest: &key_digest,
                cause: &cause,
                kept: &kept,
                swept_until_ms: attempts.swept_until_ms,
            };
            let answer = self.store.commit(caller, &settlement).await?;
            if let Some(outcome) = attempts.settled(answer).await? {
                break outcome;
            }
        };
        match committed {
            store::Committed::Now {
                unit,
                charged,
                released,
                balances,
            } => Ok(Committed {
                unit,
                charged,
                released,
                balances,
            }),
            store::Committed::Before(record) => {
                let (charged, estimate) = (record.integer("charged")?, record.integer("estimate")?);
                Ok(Committed {
                    unit: record.unit()?,
                    charged,
                    released: (estimate - charged).max(0),
                    balances: record.balances("commit")?,
                })
            }
        }
    }
}
