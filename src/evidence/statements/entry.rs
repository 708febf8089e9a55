//! Entries of the queue of unsigned evidence, and the statement of an entry.
//!
//! The create and the end of a reservation are read back from its record, so their entries name it. Everything else has a short
//! life or no record, so its entry has all of it, with `inputs` as records have them. Each entry has `kind` and `digest`.

use super::refusals::of_refusal;
use super::{Attested, of_create, of_end, of_outcome, unknown_format};
use crate::domain::ids::ReservationId;
use crate::domain::json::Canonical;
use crate::domain::payload_hash::PayloadHash;
use crate::domain::record::{Record, RecordError};
use crate::domain::reservation::OutcomeKind;
use crate::domain::words::words;

words! {
    /// The content of an entry.
    EntryKind {
        /// The create of a reservation, by its record.
        Create = "create",
        /// Its commit or release, by its record.
        End = "end",
        /// A decision.
        Decision = "decision",
        /// A dry run.
        DryRun = "dry_run",
        /// A refusal.
        Refusal = "refusal",
    }
}

/// Why an entry cannot be signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryFault {
    /// A later release wrote it, and can sign it.
    #[error("its format is {0}, which this release does not know")]
    UnknownFormat(u32),
    /// It or its record cannot be read.
    #[error(transparent)]
    Damaged(#[from] RecordError),
    /// The request is another than the one that was announced.
    #[error("its request is not the one that was accepted")]
    AnotherRequest,
}

/// The reservation whose record an entry needs, if it needs one.
///
/// # Errors
/// [`RecordError`] names the field.
pub fn reservation_of(entry: &Record) -> Result<Option<ReservationId>, RecordError> {
    match kind_of(entry)? {
        EntryKind::Create | EntryKind::End => {
            let id = ReservationId::parse(entry.text("id")?);
            id.map(Some).ok_or_else(|| RecordError::of("id"))
        }
        EntryKind::Decision | EntryKind::DryRun | EntryKind::Refusal => Ok(None),
    }
}

/// The statement of an entry. `record`: of the reservation that it names.
///
/// # Errors
/// [`EntryFault`].
pub fn of_entry(entry: &Record, record: &Record) -> Result<Attested, EntryFault> {
    known_format(entry, "inputs")?;
    let kind = kind_of(entry)?;
    let inputs = match kind {
        EntryKind::Create => "create_inputs",
        EntryKind::End => "end_inputs",
        EntryKind::Decision | EntryKind::DryRun | EntryKind::Refusal => "inputs",
    };
    known_format(record, inputs)?;
    let reservation = reservation_of(entry)?;
    let attested = match (kind, &reservation) {
        (EntryKind::Create, Some(id)) => of_create(id, record)?,
        (EntryKind::End, Some(id)) => of_end(id, record)?,
        (EntryKind::Decision, _) => of_outcome(OutcomeKind::Decision, entry)?,
        (EntryKind::DryRun, _) => of_outcome(OutcomeKind::DryRun, entry)?,
        (EntryKind::Refusal, _) => Some(of_refusal(entry)?),
        (EntryKind::Create | EntryKind::End, None) => None,
    };
    let attested = attested.ok_or_else(|| RecordError::of(inputs))?;
    let request = attested.statement.payload.request();
    let digest = request.map(digest_of);
    match digest.as_ref().map(PayloadHash::as_str) == entry.get("digest") {
        true => Ok(attested),
        false => Err(EntryFault::AnotherRequest),
    }
}

/// Checks that inputs are not of a format of a later release.
fn known_format(record: &Record, inputs: &str) -> Result<(), EntryFault> {
    match record.get(inputs).and_then(unknown_format) {
        Some(format) => Err(EntryFault::UnknownFormat(format)),
        None => Ok(()),
    }
}

/// The digest of a request as it is attested. An entry keeps it, so that the signer finds out whether it read back the request
/// that was accepted.
pub fn digest_of(request: &Canonical) -> PayloadHash {
    PayloadHash::of_canonical(request.as_str())
}

fn kind_of(entry: &Record) -> Result<EntryKind, RecordError> {
    let kind = EntryKind::parse(entry.text("kind")?);
    kind.ok_or_else(|| RecordError::of("kind"))
}
