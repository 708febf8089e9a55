//! Calls of scripts that emit what is due, each once and not before its time; among them `denials.lua` and `audit_failures.lua`,
//! for past refusals that were only counted.

use crate::domain::ids::TenantId;
use crate::store::signature::{Refused, signature};
use crate::store::{Lease, ScriptError, StoreError, outcome};

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
        context: &'a str,
        fencing_token: Lease,
    }
    replies { clock, fenced, early, flushed: Flushed { count: i64 } }
    writes "On flushed: the event; the count goes."
}

signature! {
    /// Writes the rollup of the refused requests of a tenant's keys, or of unknown callers, in a past minute beyond those that
    /// were written, where no later request did.
    AUDIT_FAILURES: AuditFailures -> EmittedReply declared elsewhere = "dispatcher/audit_failures", flags "allow-oom";
    keys of partition of fencing_token {
        read lease();
        write audit_failures(tenant), audit_failures_due(), audit_log: audit(tenant, day), chain(tenant), unsealed(), days();
    }
    args {
        day,
        /// Or the sentinel of unknown callers.
        tenant: &'a str,
        fencing_token: Lease,
    }
    replies { clock, fenced, early, flushed: Flushed { entries: i64 } }
    writes "On flushed: the audit entry; the count goes."
}

/// Result of a call that emits what is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emission {
    /// Nothing is due any more. This many events and audit entries were appended: none where another call did.
    Flushed(i64),
    /// Nothing, before its time.
    Early,
    /// Nothing, because another dispatcher holds the lease by now.
    Fenced,
}

impl Emission {
    /// The reply of a script that emits pending events.
    pub(super) fn of(reply: Result<EmittedReply, ScriptError>) -> Result<Self, StoreError> {
        match reply {
            Err(ScriptError::Refused(Refused::Early, _)) => Ok(Self::Early),
            Err(ScriptError::Refused(Refused::Fenced, _)) => Ok(Self::Fenced),
            reply => outcome(reply).map(|EmittedReply::Flushed { count }| Self::Flushed(count)),
        }
    }
}
