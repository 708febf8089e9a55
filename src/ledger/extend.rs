//! Extending: the expiry moves further away, and nothing else changes.

use super::Ledger;
use super::calls::RunOptions;
use super::decisions::DecidedBy;
use crate::domain::budget::Balance;
use crate::domain::caller::RuntimeCaller;
use crate::domain::cause::Cause;
use crate::domain::fields::object;
use crate::domain::ids::{IdempotencyKey, ReservationId};
use crate::domain::json::FreeObject;
use crate::domain::payload_hash::HashedRequest;
use crate::domain::reservation::{Decision, balances_at, remaining_ttl_ms};
use crate::domain::words::words;
use crate::store::StoreError;
use crate::store::runtime::extend::{Extend, ExtendReply};
use crate::store::runtime::target::RuntimeTarget;

/// Extensions of a reservation, whatever its tenant or policy allows. Each stays in the record, in about 200 bytes.
const EXTENSIONS_MAX: u32 = 1_000;

object! {
    /// Extends a reservation.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ReservationExtendRequest: Read {
        /// Identifies this attempt: the same key extends once.
        pub idempotency_key: IdempotencyKey,
        /// How far the expiry moves from where it is now, in milliseconds.
        pub extend_by_ms: i64 { range: 1..=86_400_000 },
        /// Data that the client chooses, stored for audit.
        pub metadata: Option<FreeObject>,
    }
}

words! {
    /// The only status of an extension.
    ExtendStatus: "SCREAMING_SNAKE_CASE" {
        /// Still held.
        Active,
    }
}

object! {
    /// The new expiry.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ReservationExtendResponse: Serialize {
        /// The reservation's status.
        pub status: ExtendStatus,
        /// When the hold expires now, in milliseconds since the epoch.
        pub expires_at_ms: i64 { range: 0.. },
        /// How long that is from now, in milliseconds. The only member that is computed anew in a replay.
        pub remaining_ttl_ms: i64 { range: 0.., required: false },
        /// The budgets that hold the reservation, root first; an extension does not change them.
        pub balances: Vec<Balance> { required: false },
    }
}

impl Ledger {
    /// Moves the expiry of an active reservation. Repeating it under one key extends once.
    ///
    /// # Errors
    /// [`StoreError`]; refused in the order of precedence of `lua/runtime/extend.lua`.
    pub async fn extend(
        &self,
        caller: &RuntimeCaller,
        reservation_id: &ReservationId,
        body: &HashedRequest<ReservationExtendRequest>,
        cause: &Cause,
    ) -> Result<ReservationExtendResponse, StoreError> {
        self.refuse_foreign(caller, reservation_id, "reservations:extend")
            .await?;
        let request = &body.request;
        let key_digest = request.idempotency_key.digest();
        let metadata = request.metadata.as_ref();
        let target = RuntimeTarget::reservation(reservation_id);
        let options = RunOptions::new(DecidedBy::Extend, &caller.tenant, target, cause, None);
        let reply = self.run_with_policy(options, |attempt| Extend {
            caller,
            payload_hash: body.payload_hash.as_str(),
            key_digest: &key_digest,
            extend_by_ms: request.extend_by_ms,
            extensions_max: EXTENSIONS_MAX,
            reservation_id,
            until_ms: attempt.until_ms,
            metadata: metadata.map(FreeObject::as_str),
            stored_bytes: self.counted_bytes(metadata.map_or(0, |it| it.as_str().len())),
        });
        let (reply, _) = reply.await?;
        let is_replay = matches!(reply, ExtendReply::Replayed { .. });
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
        }) = reply;
        if !is_replay {
            self.metrics
                .allowed(DecidedBy::Extend, Decision::Allow, unit);
        }
        Ok(ReservationExtendResponse {
            status: ExtendStatus::Active,
            expires_at_ms,
            remaining_ttl_ms: remaining_ttl_ms(status, expires_at_ms, now_ms),
            balances: balances_at(&scope_path, unit, &depths, &snapshots)?,
        })
    }
}
