//! `commit.lua`: ends an active reservation with a charge.

use crate::domain::amount::Unit;
use crate::domain::caller::RuntimeCaller;
use crate::domain::ids::ReservationId;
use crate::domain::policy::{Overage, OveragePolicy};
use crate::domain::record::Record;
use crate::domain::reservation::facts::Fact;
use crate::domain::scope::ScopePath;
use crate::store::signature::signature;

signature! {
    /// Ends an active reservation with a charge. The actual amount is charged, the rest of the hold returns. What goes beyond
    /// the hold is charged as the overage policy of the reservation allows.
    COMMIT: Commit -> CommitReply = "runtime/commit", flags "allow-oom";
    names { caller: &'a RuntimeCaller, key_id of caller }
    keys of partition of caller {
        read api_key(key_id);
        write tenant_key: tenant(tenant), reservation(reservation_id), due(tenant), event_log: events(tenant, day),
            outbox(), unsigned(), days(), over_limit_or_in_debt(), rates(tenant), usage(tenant, day);
    }
    builds { write budget(tenant), other_graces, unsigned_refusals, more_usage }
    args {
        day,
        key_hash of caller,
        tenant of caller,
        payload_hash: &'a str,
        unit: &'a str,
        actual: i64,
        key_digest: &'a str,
        until_ms: Option<i64>,
        reservation_id: &'a ReservationId,
        context: &'a str,
        /// Bytes that the request stores of its own, and how many a minute admits, if it counts.
        stored_bytes: Option<String>,
        /// What evidence attests of the request, in lines; see `evidence/queue`.
        evidence: Option<&'a str>,
        kept: &'a [Fact<'a>],
    }
    replies {
        unauthorized, forbidden, clock, not_found, foreign, scope_forbidden, idempotency_mismatch,
        replayed: Replayed { now_ms: i64, record: Record },
        tenant_unreadable, tenant_closed, expired, finalized, unit_mismatch, corrupt, overage_rejected, sweep_first, turn_first, denied,
        attested,
        committed: Committed {
            now_ms: i64, unit: Unit, charged: i64, released: i64, depths: String, scope_path: ScopePath,
            overage_policy: OveragePolicy, overage: Overage, snapshots: Vec<String>,
        },
    }
    writes "On committed: the reservation, its due time and expiry, the ledgers, the usage of the day, their place in the index of those over their limit or in \
debt, events, the rates where a policy counts commits, the bytes where the request counts, and the entry of evidence. On attested: the entry and its count. \
Otherwise nothing."
}
