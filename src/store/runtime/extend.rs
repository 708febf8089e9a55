//! `extend.lua`: moves the expiry of an active reservation outward.

use super::{Answer, balances};
use crate::domain::amount::Unit;
use crate::domain::budget::Balance;
use crate::domain::caller::RuntimeCaller;
use crate::domain::ids::{Partition, ReservationId};
use crate::domain::reservation::Status;
use crate::domain::scope::ScopePath;
use crate::store::signature::signature;
use crate::store::{Store, StoreError};

signature! {
    /// Moves the expiry of an active reservation outward, from its expiry and not from now.
    ///
    /// An idempotency entry is kept as long as the reservation, so that no retry extends twice. So there are EXTENSIONS_MAX
    /// of them at most, whatever the tenant's limit. Of the metadata only the last extension's is kept.
    EXTEND: Extend -> ExtendReply = "runtime/extend";
    names { partition: Partition, key_id: &'a str }
    keys of partition {
        read api_key(key_id);
        write tenant_key: tenant(tenant), reservation(reservation_id), due(tenant), due_tenants();
    }
    builds { read budget }
    args {
        key_hash: &'a str,
        tenant: &'a str,
        payload_hash: &'a str,
        /// Of the idempotency key.
        key_digest: &'a str,
        extend_by_ms: i64,
        budget_prefix = budget_prefix(tenant),
        reservation_id: &'a str,
        /// JSON.
        metadata: Option<&'a str>,
    }
    replies {
        unauthorized, forbidden, not_found, foreign, scope_forbidden, idempotency_mismatch,
        replayed: Replayed {
            now_ms: i64, status: Status, unit: Unit, depths: String, scope_path: ScopePath, expires_at_ms: i64,
            snapshots: Vec<String>,
        },
        tenant_unreadable, tenant_closed, expired, finalized, max_extensions, corrupt,
        extended: Extended {
            now_ms: i64, status: Status, unit: Unit, depths: String, scope_path: ScopePath, expires_at_ms: i64,
            snapshots: Vec<String>,
        },
    }
    writes "On extended: the reservation and its due time; and the tenant's longest life, where this one's is longer than \
usual and than any before, so that lists look back far enough. Otherwise nothing."
}

/// An extension to be made.
#[derive(Debug)]
pub struct Extension<'a> {
    /// Which reservation.
    pub reservation_id: &'a ReservationId,
    /// Milliseconds past the present expiry.
    pub extend_by_ms: i64,
    /// Digest of the canonical body.
    pub payload_hash: &'a str,
    /// Digest of the idempotency key.
    pub key_digest: &'a str,
    /// Compact JSON, kept for audit.
    pub metadata: Option<&'a str>,
}

/// What `extend.lua` did, now or when it was asked first.
#[derive(Debug)]
pub struct Extended {
    /// The script's clock, in milliseconds.
    pub now_ms: i64,
    /// What has become of the reservation since.
    pub status: Status,
    /// The expiry that this extension set.
    pub expires_at_ms: i64,
    /// The ledgers of the reservation at that time, root first.
    pub balances: Vec<Balance>,
}

impl Store {
    /// Runs `extend.lua` once.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn extend(
        &self,
        caller: &RuntimeCaller,
        extension: &Extension<'_>,
    ) -> Result<Answer<Extended>, StoreError> {
        let call = Extend {
            partition: caller.partition,
            key_id: caller.key_id.as_str(),
            key_hash: caller.key_hash.as_str(),
            tenant: caller.tenant.as_str(),
            payload_hash: extension.payload_hash,
            key_digest: extension.key_digest,
            extend_by_ms: extension.extend_by_ms,
            reservation_id: extension.reservation_id.as_str(),
            metadata: extension.metadata,
        };
        self.answer(&call, Some(&caller.tenant), |outcome| {
            let (ExtendReply::Extended {
                now_ms,
                status,
                unit,
                depths,
                scope_path,
                expires_at_ms,
                snapshots,
            }
            | ExtendReply::Replayed {
                now_ms,
                status,
                unit,
                depths,
                scope_path,
                expires_at_ms,
                snapshots,
            }) = outcome;
            Ok(Extended {
                now_ms,
                status,
                expires_at_ms,
                balances: balances(&EXTEND, &scope_path, unit, &depths, &snapshots)?,
            })
        })
        .await
    }
}
