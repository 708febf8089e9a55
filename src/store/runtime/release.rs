//! `release.lua`: ends an active reservation without a charge.

use crate::domain::amount::Unit;
use crate::domain::caller::ScriptCaller;
use crate::domain::ids::{ReservationId, TenantId};
use crate::domain::record::Record;
use crate::domain::reservation::facts::Fact;
use crate::domain::scope::ScopePath;
use crate::driver::script::Counted;
use crate::store::signature::signature;

signature! {
    /// Ends an active reservation without a charge; its hold returns to the ledgers.
    RELEASE: Release -> ReleaseReply = "runtime/release", flags "allow-oom";
    names { caller: ScriptCaller<'a>, key_id of caller, audited: bool }
    keys of partition of owner {
        read api_key(key_id);
        write tenant_key: tenant(owner), reservation(reservation_id), due(owner), event_log: events(owner, day), outbox(),
            unsigned(), days(), audit_log: audit(owner, day) when audited, chain(owner) when audited, unsealed() when audited;
    }
    builds { write budget(owner), other_graces, unsigned_refusals }
    args {
        day,
        key_hash of caller,
        /// Of the API key; empty for the admin key.
        tenant of caller,
        payload_hash: &'a str,
        key_digest: &'a str,
        context: &'a str,
        owner: &'a TenantId,
        reservation_id: &'a ReservationId,
        until_ms: Option<i64>,
        /// What evidence attests of the request, in lines; see `evidence/queue`.
        evidence: Option<&'a str>,
        kept: Counted<&'a [Fact<'a>]>,
        /// Names and values of the audit entry, for the admin key.
        audit: &'a [Fact<'a>],
    }
    replies {
        unauthorized, forbidden, clock, not_found, foreign, scope_forbidden, idempotency_mismatch,
        replayed: Replayed { now_ms: i64, record: Record },
        tenant_unreadable, tenant_closed, expired, finalized, corrupt, turn_first, attested,
        released: Released {
            now_ms: i64, unit: Unit, estimate: i64, depths: String, scope_path: ScopePath, snapshots: Vec<String>,
        },
    }
    writes "On released: the reservation, its due time and expiry, the ledgers, events, the audit entry, the entry of evidence. \
On attested: the entry and its count. Otherwise nothing."
}
