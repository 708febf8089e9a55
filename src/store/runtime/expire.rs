//! `expire.lua`: ends reservations whose grace has passed.

use crate::domain::ids::{Partition, TenantId};
use crate::driver::node::Lane;
use crate::store::dispatcher::poll::Due;
use crate::store::scripts::EXPIRE;
use crate::store::{Arg, Reply, Store, StoreError};

/// Reservations that one call ends at most.
pub const PAGE_ROWS: i64 = 100;

/// What one call did.
#[derive(Debug)]
pub enum Expired {
    /// It ended some, or found none.
    Page {
        /// How many.
        count: i64,
        /// Whether more are due.
        more: bool,
        /// When the tenant's next one is due, in milliseconds.
        next_due_ms: Option<i64>,
        /// Corrupt records that were put into quarantine.
        quarantined: Vec<String>,
    },
    /// The caller's lease is over.
    Fenced,
    /// The day keys were those of another day.
    WrongDay,
}

impl Store {
    /// The tenants of each partition with the earliest due reservations, at most `rows` of each partition.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn poll_due(
        &self,
        partitions: &[Partition],
        rows: usize,
    ) -> Result<Vec<Option<Vec<Due>>>, StoreError> {
        let key = |partition: &Partition| self.keys().due_tenants(*partition);
        self.poll(partitions.iter().map(key), rows).await
    }

    /// Runs `expire.lua` once for a tenant.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn expire(
        &self,
        lane: Lane,
        tenant: &TenantId,
        cause: &str,
        before_ms: Option<i64>,
        fencing_token: Option<i64>,
    ) -> Result<Expired, StoreError> {
        let (keys, partition, day) = (self.keys(), tenant.partition(), self.today());
        let key_names = [
            keys.tenant(partition, tenant.as_str()),
            keys.due(partition, tenant.as_str()),
            keys.due_tenants(partition),
            keys.events(partition, tenant.as_str(), day),
            keys.outbox(partition),
            keys.days(partition),
            keys.quarantine(partition),
            keys.lease(partition),
        ];
        let day_text = day.to_string();
        let reservation_prefix = keys.reservation(partition, "");
        let budget_prefix = keys.budget_prefix(partition, tenant.as_str());
        let args = [
            Arg::from(tenant.as_str()),
            Arg::from(&day_text),
            Arg::from(day.start_ms()),
            Arg::from(PAGE_ROWS),
            Arg::from(&reservation_prefix),
            Arg::from(&budget_prefix),
            Arg::from(cause),
            super::reserve::optional(before_ms),
            super::reserve::optional(fencing_token),
        ];
        let value = self.call_on(lane, &EXPIRE, &key_names, &args).await?;
        let mut reply = Reply::new(&EXPIRE, value)?;
        match reply.next_str()?.as_str() {
            "expired" => {
                let _now_ms = reply.next_i64()?;
                Ok(Expired::Page {
                    count: reply.next_i64()?,
                    more: reply.next_i64()? == 1,
                    next_due_ms: reply.next_str()?.parse().ok(),
                    quarantined: reply.rest()?,
                })
            }
            "fenced" => Ok(Expired::Fenced),
            "clock" => Ok(Expired::WrongDay),
            other => Err(reply.unknown(other)),
        }
    }
}

/// Ends the holds of one tenant that were due before `before_ms`, page by page, until none is left.
///
/// For an operation that is short of funds while dead holds stand: it needs no lease, the script makes it right. It is part
/// of a request, so it waits behind no list and no worker.
///
/// # Errors
/// [`StoreError`].
pub async fn expire_tenant(
    store: &Store,
    tenant: &TenantId,
    cause: &str,
    before_ms: i64,
) -> Result<i64, StoreError> {
    let mut expired = 0;
    loop {
        let page = store.expire(Lane::Request, tenant, cause, Some(before_ms), None);
        match page.await? {
            Expired::Page { count, more, .. } => {
                expired += count;
                if !more {
                    return Ok(expired);
                }
            }
            Expired::WrongDay | Expired::Fenced => {}
        }
    }
}
