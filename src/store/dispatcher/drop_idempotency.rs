//! `drop_idempotency.lua`: deletes idempotency entries without a TTL whose time is over.

use super::lease::Lease;
use crate::store::signature::signature;

signature! {
    /// Deletes entries that keep a retry from moving money again, as far as they are due at a time.
    DROP_IDEMPOTENCY: DropIdempotency -> DropIdempotencyReply = "dispatcher/drop_idempotency", flags "allow-oom";
    keys of partition of fencing_token {
        read lease();
        write idempotency_due();
    }
    each { write entries: idempotency | bulk | bulk_rows }
    args { due_until_ms: i64, fencing_token: &'a Lease }
    replies { fenced, dropped: Dropped { count: i64 } }
    writes "On dropped: the entries that are due, and their places in the index."
}
