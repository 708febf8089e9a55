//! `denials.lua`: the event of the denials of a past minute that were only counted.

use crate::domain::ids::TenantId;
use crate::store::Lease;
use crate::store::signature::signature;

signature! {
    /// Emits the rollup of a tenant's denials of a past minute that were only counted, where no later denial did.
    DENIALS: Denials -> EmittedReply = "dispatcher/denials", flags "allow-oom";
    keys of partition of fencing_token {
        read lease();
        write denials(tenant), denial_minutes: denials_due(), event_log: events(tenant, day), outbox(), days(),
            tenant_key: tenant(tenant);
    }
    args {
        day,
        tenant: &'a TenantId,
        /// The request cause, lines of name and value.
        context: &'a str,
        fencing_token: Lease,
    }
    replies { clock, fenced, early, flushed: Flushed { count: i64 } }
    writes "On flushed: the event; the count goes."
}
