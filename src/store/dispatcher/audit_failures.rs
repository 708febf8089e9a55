//! `audit_failures.lua`: the audit entry of the refused admin requests of a past minute that were only counted.

use crate::domain::ids::Partition;
use crate::store::dispatcher::flush::Flushed;
use crate::store::signature::signature;
use crate::store::{Lane, Lease, Store, StoreError};

signature! {
    /// Writes the rollup of the refused requests of unknown callers in a past minute beyond those that were written, where no
    /// later request did.
    AUDIT_FAILURES: AuditFailures -> AuditFailuresReply = "dispatcher/audit_failures", flags "allow-oom";
    names { partition: Partition }
    keys of partition {
        read lease();
        write audit_failures(sentinel), audit_failures_due(), audit_log: audit(sentinel, day), chain(sentinel), unsealed(),
            days();
    }
    args { day, sentinel: &'a str, fencing_token: i64 }
    replies { clock, fenced, early, flushed: Flushed { entries: i64 } }
    writes "On flushed: the audit entry; the count goes."
}

impl Store {
    /// Runs the script once for a sentinel.
    pub(in crate::store) async fn flush_audit_failures(
        &self,
        sentinel: &str,
        lease: Lease,
    ) -> Result<Flushed, StoreError> {
        let call = AuditFailures {
            partition: lease.partition,
            sentinel,
            fencing_token: lease.token,
        };
        let flushed = self.run_on(Lane::Background, &call).await?;
        Flushed::read(flushed.map(|AuditFailuresReply::Flushed { entries }| entries))
    }
}
