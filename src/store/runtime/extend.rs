//! `extend.lua`: moves the expiry of an active reservation outward.

use crate::domain::amount::Unit;
use crate::domain::caller::RuntimeCaller;
use crate::domain::ids::ReservationId;
use crate::domain::reservation::Status;
use crate::domain::scope::ScopePath;
use crate::store::signature::signature;

signature! {
    /// Moves the expiry of an active reservation outward, from its expiry and not from now.
    ///
    /// An idempotency entry is kept as long as the reservation, so that no retry extends twice. So there are
    /// extensions_max of them at most, whatever the tenant's limit. Of the metadata only the last extension's is kept.
    EXTEND: Extend -> ExtendReply = "runtime/extend", flags "allow-oom";
    names { caller: &'a RuntimeCaller, key_id of caller }
    keys of partition of caller {
        read api_key(key_id);
        write tenant_key: tenant(tenant), reservation(reservation_id), due(tenant), due_tenants(),
            rates(tenant) when stored_bytes;
    }
    builds { read budget(tenant); write other_graces }
    args {
        key_hash of caller,
        tenant of caller,
        payload_hash: &'a str,
        key_digest: &'a str,
        extend_by_ms: i64,
        extensions_max: u32,
        reservation_id: &'a ReservationId,
        until_ms: Option<i64>,
        /// JSON.
        metadata: Option<&'a str>,
        /// Bytes that the request stores of its own, and how many a minute admits, if it counts.
        stored_bytes: Option<String>,
    }
    replies {
        unauthorized, forbidden, not_found, foreign, scope_forbidden, idempotency_mismatch,
        replayed: Replayed {
            now_ms: i64, status: Status, unit: Unit, depths: String, scope_path: ScopePath, expires_at_ms: i64,
            snapshots: Vec<String>,
        },
        tenant_unreadable, tenant_closed, expired, finalized, max_extensions, corrupt, turn_first,
        extended: Extended {
            now_ms: i64, status: Status, unit: Unit, depths: String, scope_path: ScopePath, expires_at_ms: i64,
            snapshots: Vec<String>,
        },
    }
    writes "On extended: the reservation, its due time and expiry; and the tenant's longest life, where this one's is longer than \
usual and than any before, so that lists look back far enough. Otherwise nothing."
}
