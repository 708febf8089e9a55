//! `audit_failures.lua`: the audit entry of the refused admin requests of a past minute that were only counted.

use super::denials::EmittedReply;
use crate::store::Lease;
use crate::store::signature::signature;

signature! {
    /// Writes the rollup of the refused requests of unknown callers in a past minute beyond those that were written, where no
    /// later request did.
    AUDIT_FAILURES: AuditFailures -> EmittedReply declared elsewhere = "dispatcher/audit_failures", flags "allow-oom";
    keys of partition of fencing_token {
        read lease();
        write audit_failures(sentinel), audit_failures_due(), audit_log: audit(sentinel, day), chain(sentinel), unsealed(),
            days();
    }
    args { day, sentinel: &'a str, fencing_token: Lease }
    replies { clock, fenced, early, flushed: Flushed { entries: i64 } }
    writes "On flushed: the audit entry; the count goes."
}
