//! `commit.lua`: settles an active reservation.

use super::reserve::{optional, push_pairs};
use crate::domain::amount::{Amount, Unit};
use crate::domain::budget::Balance;
use crate::domain::caller::RuntimeCaller;
use crate::domain::ids::ReservationId;
use crate::domain::record::Record;
use crate::store::runtime::{Answer, balances, record, refused_for};
use crate::store::scripts::COMMIT;
use crate::store::{Arg, Call, Reply, Store, StoreError};

/// A settlement to be made.
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
        let call = self.commit_call(caller, settlement);
        let mut reply = Reply::new(&COMMIT, self.send(&call).await?)?;
        Ok(Answer::Done(match reply.next_str()?.as_str() {
            "committed" => {
                let _now_ms = reply.next_i64()?;
                let unit = reply.next_unit()?;
                let (charged, released) = (reply.next_i64()?, reply.next_i64()?);
                let (depths, path) = (reply.next_str()?, reply.next_path()?);
                Committed::Now {
                    unit,
                    charged,
                    released,
                    balances: balances(&mut reply, &path, unit, &depths)?,
                }
            }
            "replayed" => {
                let _now_ms = reply.next_i64()?;
                Committed::Before(record(&mut reply)?)
            }
            other => return refused_for(&caller.tenant, other, reply),
        }))
    }

    /// The call of `commit.lua`.
    pub fn commit_call(&self, caller: &RuntimeCaller, settlement: &Settlement<'_>) -> Call {
        let (partition, tenant) = (caller.partition, caller.tenant.as_str());
        let (keys, day) = (self.keys(), self.today());
        let key_names = [
            keys.api_key(partition, caller.key_id.as_str()),
            keys.tenant(partition, tenant),
            keys.reservation(partition, settlement.reservation_id.as_str()),
            keys.due(partition, tenant),
            keys.events(partition, tenant, day),
            keys.outbox(partition),
            keys.days(partition),
            keys.strained(partition),
        ];
        let rates = keys.rates(partition, tenant);
        let (day_text, budget_prefix) = (day.to_string(), keys.budget_prefix(partition, tenant));
        let mut args = vec![
            Arg::from(caller.key_hash.as_str()),
            Arg::from(tenant),
            Arg::from(&day_text),
            Arg::from(day.start_ms()),
            Arg::from(settlement.payload_hash),
            Arg::from(settlement.actual.unit().as_str()),
            Arg::from(settlement.actual.value()),
            Arg::from(settlement.key_digest),
            Arg::from(&budget_prefix),
            optional(settlement.swept_until_ms),
            Arg::from(settlement.reservation_id.as_str()),
            Arg::from(settlement.cause),
            Arg::from(&rates),
        ];
        push_pairs(&mut args, settlement.kept);
        Call::new(&COMMIT, &key_names, &args)
    }
}
