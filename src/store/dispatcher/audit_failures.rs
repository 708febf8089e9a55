//! `audit_failures.lua`: the audit entry that sums up the refused admin requests of a past minute that were only counted.

use crate::store::dispatcher::rollups::Flushed;
use crate::store::scripts::AUDIT_FAILURES;
use crate::store::{Arg, Lane, Lease, Store, StoreError};

impl Store {
    /// Runs the script once for a sentinel.
    pub(in crate::store) async fn flush_audit_failures(
        &self,
        sentinel: &str,
        lease: Lease,
    ) -> Result<Flushed, StoreError> {
        let (keys, partition, day) = (self.keys(), lease.partition, self.today());
        let key_names = [
            keys.audit_failures(partition, sentinel),
            keys.audit_failures_due(partition),
            keys.audit(partition, sentinel, day),
            keys.chain(partition, sentinel),
            keys.unsealed(partition),
            keys.days(partition),
            keys.lease(partition),
        ];
        let day_text = day.to_string();
        let args = [
            Arg::from(sentinel),
            Arg::from(&day_text),
            Arg::from(day.start_ms()),
            Arg::from(lease.token),
        ];
        let value = self
            .call_on(Lane::Background, &AUDIT_FAILURES, &key_names, &args)
            .await?;
        Flushed::read(&AUDIT_FAILURES, value)
    }
}
