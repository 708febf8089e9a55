//! Makes envelopes of entries: no I/O.

use std::collections::HashMap;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use crate::config::SigningConfig;
use crate::domain::ids::{EvidenceId, Partition, ReservationId};
use crate::domain::record::Record;
use crate::evidence::{Registry, Unattestable, Unsigned};
use crate::ledger::statements::{EntryFault, FIELDS, of_entry, reservation_of};
use crate::store::dispatcher::unsigned::Queued;
use crate::store::{Store, StoreError};

/// Fewer entries are not worth another core.
const PART_MIN: usize = 32;

/// Who signs.
pub(super) struct Signers {
    /// Issuers by number.
    pub registry: Arc<Registry>,
    /// Their keys.
    pub config: SigningConfig,
}

/// An entry with its place.
pub(super) type Entry = (Queued, Record);

/// What becomes of an entry.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Its envelope: id and bytes.
    Signed(EvidenceId, String),
    /// It has none: the canonical form would round a number.
    Rounded,
    /// Another dispatcher can sign it, or a later release.
    Unknown(String),
    /// Nobody can.
    Damaged(String),
    /// Its record is out of reach for now.
    OutOfReach,
}

/// The records that entries name.
///
/// # Errors
/// [`StoreError`] when no node answers.
pub(super) async fn read_records(
    store: &Store,
    entries: &[Entry],
) -> Result<HashMap<ReservationId, Option<Record>>, StoreError> {
    let named = entries.iter().filter_map(|((partition, _), entry)| {
        let id = reservation_of(entry).ok().flatten()?;
        Some((id, *partition))
    });
    let named: HashMap<ReservationId, Partition> = named.collect();
    let named: Vec<_> = named
        .into_iter()
        .map(|(id, partition)| (partition, id))
        .collect();
    let records = store.read_reservations(&named, &FIELDS).await?;
    let ids = named.into_iter().map(|(_, id)| id);
    Ok(ids.zip(records).collect())
}

/// Signs entries on all cores, off the threads that serve connections.
pub(super) async fn sign(
    signers: &Arc<Signers>,
    mut entries: Vec<Entry>,
    records: HashMap<ReservationId, Option<Record>>,
) -> Vec<(Entry, Outcome)> {
    let cores = available_parallelism().map_or(1, NonZero::get);
    let each = entries.len().div_ceil(cores).max(PART_MIN);
    let records = Arc::new(records);
    let mut parts = Vec::new();
    while !entries.is_empty() {
        let rest = entries.split_off(each.min(entries.len()));
        let part = std::mem::replace(&mut entries, rest);
        let (signers, records) = (Arc::clone(signers), Arc::clone(&records));
        parts.push(tokio::task::spawn_blocking(move || {
            let outcome = |entry: Entry| {
                let outcome = outcome(&signers, &entry.1, &records);
                (entry, outcome)
            };
            part.into_iter().map(outcome).collect::<Vec<_>>()
        }));
    }
    let mut signed = Vec::new();
    for part in parts {
        signed.extend(part.await.expect("signing does not panic"));
    }
    signed
}

fn outcome(
    signers: &Signers,
    entry: &Record,
    records: &HashMap<ReservationId, Option<Record>>,
) -> Outcome {
    let none = Record::default();
    let record = match reservation_of(entry) {
        Ok(Some(id)) => match records.get(&id) {
            Some(Some(record)) => record,
            _ => return Outcome::OutOfReach,
        },
        // A later release may have other kinds of entries; the format tells.
        Ok(None) | Err(_) => &none,
    };
    let attested = match of_entry(entry, record) {
        Ok(attested) => attested,
        Err(unknown @ EntryFault::UnknownFormat(_)) => {
            return Outcome::Unknown(unknown.to_string());
        }
        Err(fault) => return Outcome::Damaged(fault.to_string()),
    };
    let number = attested.inputs.issuer;
    let Some(registered) = signers.registry.registered(number) else {
        return Outcome::Unknown(format!("the issuer {number} is not known here"));
    };
    let issuer = &registered.issuer;
    let Some(key) = signers.config.key_of(registered) else {
        let (signer, server_id) = (&issuer.signer, issuer.server_id.as_str());
        return Outcome::Unknown(format!(
            "this dispatcher has no seed for {signer} of {server_id}"
        ));
    };
    match Unsigned::new(issuer, attested.statement) {
        Ok(unsigned) => {
            let id = EvidenceId::parse(unsigned.evidence_id()).expect("64 digits");
            Outcome::Signed(id, unsigned.sign(key))
        }
        Err(Unattestable::Rounded(_)) => Outcome::Rounded,
        Err(misfit @ Unattestable::Misfit(_)) => Outcome::Damaged(misfit.to_string()),
    }
}
