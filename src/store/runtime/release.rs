//! `release.lua`: ends an active reservation without a charge.

use super::{Answer, balances};
use crate::domain::amount::Unit;
use crate::domain::budget::Balance;
use crate::domain::caller::{Caller, Reader};
use crate::domain::ids::{Partition, ReservationId, TenantId};
use crate::domain::record::Record;
use crate::domain::scope::ScopePath;
use crate::driver::script::Counted;
use crate::store::signature::signature;
use crate::store::{Pair, Store, StoreError};

signature! {
    /// Ends an active reservation without a charge; its hold returns to the ledgers.
    RELEASE: Release -> ReleaseReply = "runtime/release", flags "allow-oom";
    names { partition: Partition, key_id: &'a str, audited: bool }
    keys of partition {
        read api_key(key_id);
        write tenant_key: tenant(owner), reservation(reservation_id), due(owner), event_log: events(owner, day), outbox(),
            days(), audit_log: audit(owner, day) when audited, chain(owner) when audited, unsealed() when audited;
    }
    builds { write budget }
    args {
        day,
        /// Empty for the admin key.
        key_hash: &'a str,
        /// Of the API key; empty for the admin key.
        tenant: &'a str,
        payload_hash: &'a str,
        /// Of the idempotency key.
        key_digest: &'a str,
        budget_prefix = budget_prefix(owner),
        /// The request cause, lines of name and value.
        context: &'a str,
        owner: &'a str,
        reservation_id: &'a str,
        /// Names and values that the record keeps.
        kept: Counted<&'a [Pair]>,
        /// Names and values of the audit entry, for the admin key.
        audit: &'a [Pair],
    }
    replies {
        unauthorized, forbidden, clock, not_found, foreign, scope_forbidden, idempotency_mismatch,
        replayed: Replayed { now_ms: i64, record: Record },
        tenant_unreadable, tenant_closed, expired, finalized, corrupt,
        released: Released {
            now_ms: i64, unit: Unit, estimate: i64, depths: String, scope_path: ScopePath, snapshots: Vec<String>,
        },
    }
    writes "On released: the reservation, its due time, the ledgers, events, the audit entry. Otherwise nothing."
}

/// A hold to be given back.
#[derive(Debug)]
pub struct Return<'a> {
    /// Which reservation.
    pub reservation_id: &'a ReservationId,
    /// Whose it is: the caller's own tenant, or the owner that an admin's release has looked up.
    pub owner: &'a TenantId,
    /// Digest of the canonical body.
    pub payload_hash: &'a str,
    /// Digest of the idempotency key.
    pub key_digest: &'a str,
    /// Lines of the cause, for events.
    pub cause: &'a str,
    /// Names and values that only the record keeps.
    pub kept: &'a [(&'static str, String)],
    /// Names and values of the audit entry of an admin's release.
    pub audit: &'a [(&'static str, String)],
}

/// What `release.lua` did, or did when it was asked first.
#[derive(Debug)]
pub enum Released {
    /// The hold is given back.
    Now {
        /// What the amount counts.
        unit: Unit,
        /// What was held.
        released: i64,
        /// The ledgers of the reservation after it, root first.
        balances: Vec<Balance>,
    },
    /// The record that the first request left.
    Before(Record),
}

impl Store {
    /// Runs `release.lua` once.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn release(
        &self,
        caller: &Caller,
        give_back: &Return<'_>,
    ) -> Result<Answer<Released>, StoreError> {
        let (key_id, key_hash, tenant) = caller_words(caller);
        let call = Release {
            partition: give_back.owner.partition(),
            key_id,
            audited: matches!(caller, Caller::Admin(_)),
            key_hash,
            tenant,
            payload_hash: give_back.payload_hash,
            key_digest: give_back.key_digest,
            context: give_back.cause,
            owner: give_back.owner.as_str(),
            reservation_id: give_back.reservation_id.as_str(),
            kept: Counted(give_back.kept),
            audit: give_back.audit,
        };
        self.answer(&call, Some(give_back.owner), |outcome| {
            Ok(match outcome {
                ReleaseReply::Released {
                    unit,
                    estimate,
                    depths,
                    scope_path,
                    snapshots,
                    ..
                } => Released::Now {
                    unit,
                    released: estimate,
                    balances: balances(&RELEASE, &scope_path, unit, &depths, &snapshots)?,
                },
                ReleaseReply::Replayed { record, .. } => Released::Before(record),
            })
        })
        .await
    }
}

/// Key id, key digest and tenant; all empty for trusted readers, whom the scripts do not check.
pub(in crate::store) fn caller_words<'a>(
    reader: impl Into<Reader<'a>>,
) -> (&'a str, &'a str, &'a str) {
    match reader.into() {
        Reader::Tenant(caller) => (
            caller.key_id.as_str(),
            caller.key_hash.as_str(),
            caller.tenant.as_str(),
        ),
        Reader::Trusted => ("", "", ""),
    }
}
