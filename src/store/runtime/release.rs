//! `release.lua`: ends an active reservation without a charge.

use super::reserve::push_pairs;
use crate::domain::amount::Unit;
use crate::domain::budget::Balance;
use crate::domain::caller::Caller;
use crate::domain::ids::{ReservationId, TenantId};
use crate::domain::record::Record;
use crate::store::runtime::{Answer, balances, record, refused_for};
use crate::store::scripts::RELEASE;
use crate::store::{Arg, Reply, Store, StoreError};

/// A hold to be given back.
#[derive(Debug)]
pub struct Return<'a> {
    /// Which reservation.
    pub reservation_id: &'a ReservationId,
    /// Whose it is: the caller's own tenant, or the owner that an admin's release has looked up.
    pub owner: &'a TenantId,
    /// Digest of the canonical body.
    pub payload_hash: &'a str,
    /// Digest of the idempotency key.
    pub key_digest: &'a str,
    /// Lines of the cause, for events.
    pub cause: &'a str,
    /// Names and values that only the record keeps.
    pub kept: &'a [(&'static str, String)],
    /// Names and values of the audit entry of an admin's release.
    pub audit: &'a [(&'static str, String)],
}

/// What `release.lua` did, or did when it was asked first.
#[derive(Debug)]
pub enum Released {
    /// The hold is given back.
    Now {
        /// What the amount counts.
        unit: Unit,
        /// What was held.
        released: i64,
        /// The ledgers of the reservation after it, root first.
        balances: Vec<Balance>,
    },
    /// The record that the first request left.
    Before(Record),
}

impl Store {
    /// Runs `release.lua` once.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn release(
        &self,
        caller: &Caller,
        give_back: &Return<'_>,
    ) -> Result<Answer<Released>, StoreError> {
        let (partition, owner) = (give_back.owner.partition(), give_back.owner.as_str());
        let (keys, day) = (self.keys(), self.today());
        let (key_id, key_hash, tenant) = caller_words(caller);
        let mut key_names = vec![
            keys.api_key(partition, key_id),
            keys.tenant(partition, owner),
            keys.reservation(partition, give_back.reservation_id.as_str()),
            keys.due(partition, owner),
            keys.events(partition, owner, day),
            keys.outbox(partition),
            keys.days(partition),
            keys.audit(partition, owner, day),
            keys.chain(partition, owner),
        ];
        key_names.extend(matches!(caller, Caller::Admin(_)).then(|| keys.unsealed(partition)));
        let (day_text, budget_prefix) = (day.to_string(), keys.budget_prefix(partition, owner));
        let mut args = vec![
            Arg::from(key_hash),
            Arg::from(tenant),
            Arg::from(&day_text),
            Arg::from(day.start_ms()),
            Arg::from(give_back.payload_hash),
            Arg::from(give_back.key_digest),
            Arg::from(&budget_prefix),
            Arg::from("reservations:release"),
            Arg::from(give_back.cause),
            Arg::from(owner),
            Arg::from(give_back.reservation_id.as_str()),
            Arg::from(give_back.kept.len() as i64 * 2),
        ];
        push_pairs(&mut args, give_back.kept);
        push_pairs(&mut args, give_back.audit);
        let mut reply = Reply::new(&RELEASE, self.call(&RELEASE, &key_names, &args).await?)?;
        Ok(Answer::Done(match reply.next_str()?.as_str() {
            "released" => {
                let _now_ms = reply.next_i64()?;
                let (unit, released) = (reply.next_unit()?, reply.next_i64()?);
                let (depths, path) = (reply.next_str()?, reply.next_path()?);
                Released::Now {
                    unit,
                    released,
                    balances: balances(&mut reply, &path, unit, &depths)?,
                }
            }
            "replayed" => {
                let _now_ms = reply.next_i64()?;
                Released::Before(record(&mut reply)?)
            }
            other => return refused_for(give_back.owner, other, reply),
        }))
    }
}

/// Key id, key digest and tenant; all empty for the admin key, which the scripts take as checked.
pub(in crate::store) fn caller_words(caller: &Caller) -> (&str, &str, &str) {
    match caller {
        Caller::Tenant(caller) => (
            caller.key_id.as_str(),
            caller.key_hash.as_str(),
            caller.tenant.as_str(),
        ),
        Caller::Admin(_) => ("", "", ""),
    }
}
