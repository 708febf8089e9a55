//! Extending: the expiry moves outward, and nothing else changes.

use super::{Ledger, LedgerError, done};
use crate::domain::budget::Balance;
use crate::domain::caller::RuntimeCaller;
use crate::domain::ids::{IdempotencyKey, ReservationId};
use crate::domain::json::FreeObject;
use crate::domain::payload_hash::PayloadHash;
use crate::domain::reservation::Status;
use crate::store::runtime::extend as store;

/// An extension that is asked for.
#[derive(Debug)]
pub struct Extend {
    /// Which reservation.
    pub reservation_id: ReservationId,
    /// Chosen by the client.
    pub idempotency_key: IdempotencyKey,
    /// Digest of the canonical body.
    pub payload_hash: PayloadHash,
    /// Milliseconds past the present expiry, not past now.
    pub extend_by_ms: i64,
    /// Kept for audit.
    pub metadata: Option<FreeObject>,
}

/// What was granted.
#[derive(Debug)]
pub struct Extended {
    /// The new expiry, in milliseconds since the epoch.
    pub expires_at_ms: i64,
    /// What is left of it on the store's clock; 0 once the reservation has ended.
    pub remaining_ttl_ms: i64,
    /// The ledgers of the reservation.
    pub balances: Vec<Balance>,
}

impl Ledger {
    /// Moves the expiry of an active reservation. Repeating it under one key extends once.
    ///
    /// # Errors
    /// [`crate::domain::refusal::Refusal`] in the order of precedence of `lua/runtime/extend.lua`.
    pub async fn extend(
        &self,
        caller: &RuntimeCaller,
        extend: &Extend,
    ) -> Result<Extended, LedgerError> {
        self.refuse_foreign(caller, &extend.reservation_id, "reservations:extend")
            .await?;
        let extension = store::Extension {
            reservation_id: &extend.reservation_id,
            extend_by_ms: extend.extend_by_ms,
            payload_hash: extend.payload_hash.as_str(),
            key_digest: &extend.idempotency_key.digest(),
            metadata: extend.metadata.as_ref().map(FreeObject::as_str),
        };
        let extended = done(self.store.extend(caller, &extension).await?)?;
        let remaining_ttl_ms = match extended.status {
            Status::Active => (extended.expires_at_ms - extended.now_ms).max(0),
            Status::Committed | Status::Released | Status::Expired => 0,
        };
        Ok(Extended {
            expires_at_ms: extended.expires_at_ms,
            remaining_ttl_ms,
            balances: extended.balances,
        })
    }
}
