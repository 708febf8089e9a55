//! Releasing: the hold returns without a charge.

use super::get::named_partition;
use super::{Ledger, LedgerError, done};
use crate::domain::amount::Unit;
use crate::domain::budget::Balance;
use crate::domain::caller::{Caller, Reader};
use crate::domain::cause::Cause;
use crate::domain::ids::{IdempotencyKey, ReservationId, TenantId};
use crate::domain::payload_hash::PayloadHash;
use crate::domain::record::RecordError;
use crate::store::ExtraTrip;
use crate::store::runtime::release as store;

/// A release that is asked for.
#[derive(Debug)]
pub struct Release {
    /// Which reservation.
    pub reservation_id: ReservationId,
    /// Chosen by the client.
    pub idempotency_key: IdempotencyKey,
    /// Digest of the canonical body.
    pub payload_hash: PayloadHash,
    /// Why, for people.
    pub reason: Option<String>,
}

/// What was given back.
#[derive(Debug)]
pub struct Released {
    /// What the amount counts.
    pub unit: Unit,
    /// What was held.
    pub released: i64,
    /// The ledgers of the reservation after it.
    pub balances: Vec<Balance>,
}

impl Ledger {
    /// Ends an active reservation without a charge. Repeating it under one key, with either credential, returns the hold
    /// once. An admin's release is written to the owner's audit chain in the same step.
    ///
    /// # Errors
    /// [`crate::domain::refusal::Refusal`] in the order of precedence of `lua/runtime/release.lua`.
    pub async fn release(
        &self,
        caller: &Caller,
        release: &Release,
        cause: &Cause,
    ) -> Result<Released, LedgerError> {
        let owner = match caller {
            Caller::Tenant(caller) => {
                self.refuse_foreign(caller, &release.reservation_id, "reservations:release")
                    .await?;
                caller.tenant.clone()
            }
            Caller::Admin(_) => self.owner_of(&release.reservation_id).await?,
        };
        let mut kept = Vec::new();
        if let Some(reason) = &release.reason {
            kept.push(("release_reason", reason.clone()));
        }
        let audit = match caller {
            Caller::Tenant(_) => Vec::new(),
            Caller::Admin(_) => audit_entry(release, cause),
        };
        let (cause, key_digest) = (cause.lines(), release.idempotency_key.digest());
        let mut attempts = self.attempts(&owner);
        let released = loop {
            let give_back = store::Return {
                reservation_id: &release.reservation_id,
                owner: &owner,
                payload_hash: release.payload_hash.as_str(),
                key_digest: &key_digest,
                cause: &cause,
                kept: &kept,
                audit: &audit,
            };
            let answer = self.store.release(caller, &give_back).await?;
            if let Some(outcome) = attempts.settled(answer).await? {
                break outcome;
            }
        };
        match released {
            store::Released::Now {
                unit,
                released,
                balances,
            } => Ok(Released {
                unit,
                released,
                balances,
            }),
            store::Released::Before(record) => Ok(Released {
                unit: record.unit()?,
                released: record.integer("estimate")?,
                balances: record.balances("release")?,
            }),
        }
    }

    /// Whose reservation it is.
    async fn owner_of(&self, reservation_id: &ReservationId) -> Result<TenantId, LedgerError> {
        let partition = named_partition(reservation_id)?;
        self.store.metrics().extra_trip(ExtraTrip::Owner);
        let found = self
            .store
            .get_reservation(Reader::Trusted, partition, reservation_id, &["tenant"])
            .await?;
        let record = done(found)?.record;
        TenantId::parse(record.text("tenant")?)
            .ok_or_else(|| LedgerError::Record(RecordError::of("tenant")))
    }
}

fn audit_entry(release: &Release, cause: &Cause) -> Vec<(&'static str, String)> {
    let mut entry = vec![
        ("operation", "releaseReservation".to_owned()),
        ("resource_type", "reservation".to_owned()),
        ("resource_id", release.reservation_id.as_str().to_owned()),
        ("status", "200".to_owned()),
        ("trace_id", cause.trace_id.as_str().to_owned()),
    ];
    if let Some(request_id) = &cause.request_id {
        entry.push(("request_id", request_id.as_str().to_owned()));
    }
    if let Some(source_ip) = &cause.source_ip {
        entry.push(("source_ip", source_ip.clone()));
    }
    entry.push(("metadata.actor_type", cause.actor.as_str().to_owned()));
    if let Some(reason) = &release.reason {
        entry.push(("metadata.reason", reason.clone()));
    }
    entry
}
