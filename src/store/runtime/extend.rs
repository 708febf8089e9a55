//! `extend.lua`: moves the expiry of an active reservation outward.

use crate::domain::budget::Balance;
use crate::domain::caller::RuntimeCaller;
use crate::domain::ids::ReservationId;
use crate::domain::reservation::Status;
use crate::store::runtime::{Answer, balances, refused_for};
use crate::store::scripts::EXTEND;
use crate::store::{Arg, Reply, Store, StoreError};

/// An extension to be made.
#[derive(Debug)]
pub struct Extension<'a> {
    /// Which reservation.
    pub reservation_id: &'a ReservationId,
    /// Milliseconds past the present expiry.
    pub extend_by_ms: i64,
    /// Digest of the canonical body.
    pub payload_hash: &'a str,
    /// Digest of the idempotency key.
    pub key_digest: &'a str,
    /// Compact JSON, kept for audit.
    pub metadata: Option<&'a str>,
}

/// What `extend.lua` did, now or when it was asked first.
#[derive(Debug)]
pub struct Extended {
    /// The script's clock, in milliseconds.
    pub now_ms: i64,
    /// What has become of the reservation since.
    pub status: Status,
    /// The expiry that this extension set.
    pub expires_at_ms: i64,
    /// The ledgers of the reservation at that time, root first.
    pub balances: Vec<Balance>,
}

impl Store {
    /// Runs `extend.lua` once.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn extend(
        &self,
        caller: &RuntimeCaller,
        extension: &Extension<'_>,
    ) -> Result<Answer<Extended>, StoreError> {
        let (partition, tenant, keys) = (caller.partition, caller.tenant.as_str(), self.keys());
        let key_names = [
            keys.api_key(partition, caller.key_id.as_str()),
            keys.tenant(partition, tenant),
            keys.reservation(partition, extension.reservation_id.as_str()),
            keys.due(partition, tenant),
            keys.due_tenants(partition),
        ];
        let budget_prefix = keys.budget_prefix(partition, tenant);
        let args = [
            Arg::from(caller.key_hash.as_str()),
            Arg::from(tenant),
            Arg::from(extension.payload_hash),
            Arg::from(extension.key_digest),
            Arg::from(extension.extend_by_ms),
            Arg::from(&budget_prefix),
            Arg::from(extension.reservation_id.as_str()),
            Arg::from(extension.metadata),
        ];
        let mut reply = Reply::new(&EXTEND, self.call(&EXTEND, &key_names, &args).await?)?;
        match reply.next_str()?.as_str() {
            "extended" | "replayed" => {
                let now_ms = reply.next_i64()?;
                let status = reply.next_str()?;
                let status = Status::parse(&status).ok_or_else(|| reply.unknown(&status))?;
                let unit = reply.next_unit()?;
                let (depths, path) = (reply.next_str()?, reply.next_path()?);
                let expires_at_ms = reply.next_i64()?;
                let balances = balances(&mut reply, &path, unit, &depths)?;
                Ok(Answer::Done(Extended {
                    now_ms,
                    status,
                    expires_at_ms,
                    balances,
                }))
            }
            other => refused_for(&caller.tenant, other, reply),
        }
    }
}
