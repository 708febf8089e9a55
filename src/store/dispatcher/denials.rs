//! `denials.lua`: the event of the denials of a past minute that were only counted.

use crate::domain::ids::{Partition, TenantId};
use crate::store::dispatcher::flush::Flushed;
use crate::store::signature::signature;
use crate::store::{Lane, Lease, Store, StoreError};

signature! {
    /// Emits the rollup of a tenant's denials of a past minute that were only counted, where no later denial did.
    DENIALS: Denials -> DenialsReply = "dispatcher/denials", flags "allow-oom";
    names { partition: Partition }
    keys of partition {
        read lease();
        write denials(tenant), denial_minutes: denials_due(), event_log: events(tenant, day), outbox(), days(),
            tenant_key: tenant(tenant);
    }
    args {
        day,
        tenant: &'a str,
        /// The request cause, lines of name and value.
        context: &'a str,
        fencing_token: i64,
    }
    replies { clock, fenced, early, flushed: Flushed { events: i64 } }
    writes "On flushed: the event; the count goes."
}

impl Store {
    /// Runs the script once for a tenant.
    pub(in crate::store) async fn flush_denials(
        &self,
        tenant: &TenantId,
        lease: Lease,
        cause: &str,
    ) -> Result<Flushed, StoreError> {
        let call = Denials {
            partition: lease.partition,
            tenant: tenant.as_str(),
            context: cause,
            fencing_token: lease.token,
        };
        let flushed = self.run_on(Lane::Background, &call).await?;
        Flushed::read(flushed.map(|DenialsReply::Flushed { events }| events))
    }
}
