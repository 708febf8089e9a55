//! `denials.lua`: the event that sums up the uncounted denials of a past minute.

use super::poll::Due;
use super::script::DENIALS;
use super::{Arg, Lane, Lease, Reply, Store, StoreError};
use crate::domain::ids::{Partition, TenantId};

/// What one call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushed {
    /// It appended so many events: one, or none where a later denial had done so already.
    Events(i64),
    /// The minute is not over.
    Early,
    /// The caller's lease is over.
    Fenced,
    /// The day keys were those of another day.
    WrongDay,
}

impl Store {
    /// The tenants of each partition whose minute of denials ends first, at most `rows` of each.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn poll_denials(
        &self,
        partitions: &[Partition],
        rows: usize,
    ) -> Result<Vec<Option<Vec<Due>>>, StoreError> {
        let key = |partition: &Partition| self.keys().denials_due(*partition);
        self.poll(partitions.iter().map(key), rows).await
    }

    /// Runs `denials.lua` once for a tenant.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn flush_denials(
        &self,
        tenant: &TenantId,
        lease: Lease,
        cause: &str,
    ) -> Result<Flushed, StoreError> {
        let (keys, partition, name, day) =
            (self.keys(), lease.partition, tenant.as_str(), self.today());
        let key_names = [
            keys.denials(partition, name),
            keys.denials_due(partition),
            keys.events(partition, name, day),
            keys.outbox(partition),
            keys.days(partition),
            keys.tenant(partition, name),
            keys.lease(partition),
        ];
        let day_text = day.to_string();
        let args = [
            Arg::from(name),
            Arg::from(&day_text),
            Arg::from(day.start_ms()),
            Arg::from(cause),
            Arg::from(lease.token),
        ];
        let value = self
            .call_on(Lane::Background, &DENIALS, &key_names, &args)
            .await?;
        let mut reply = Reply::new(&DENIALS, value)?;
        match reply.next_str()?.as_str() {
            "flushed" => Ok(Flushed::Events(reply.next_i64()?)),
            "early" => Ok(Flushed::Early),
            "fenced" => Ok(Flushed::Fenced),
            "clock" => Ok(Flushed::WrongDay),
            other => Err(reply.unknown(other)),
        }
    }
}
