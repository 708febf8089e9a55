//! `denials.lua`: the event that sums up the uncounted denials of a past minute.

use crate::domain::ids::TenantId;
use crate::store::dispatcher::rollups::Flushed;
use crate::store::scripts::DENIALS;
use crate::store::{Arg, Lane, Lease, Store, StoreError};

impl Store {
    /// Runs the script once for a tenant.
    pub(in crate::store) async fn flush_denials(
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
        Flushed::read(&DENIALS, value)
    }
}
