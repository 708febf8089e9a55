//! Entries of the queue of unsigned evidence, and the statement of an entry.
//!
//! The create and the end of a reservation are read back from its record, so their entries name it. Everything else has a short
//! life or no record, so its entry has all of it, with `inputs` as records have them: of a refusal, also the words of the script's
//! reply and the ids of the request. Each entry has `kind` and `digest`.

use super::{Attested, Inputs, json, of_create, of_end, of_outcome, unknown_format};
use crate::domain::amount::Amount;
use crate::domain::ids::{ReservationId, TenantId, TraceId};
use crate::domain::json::{Canonical, Json};
use crate::domain::payload_hash::PayloadHash;
use crate::domain::record::{Record, RecordError};
use crate::domain::refusal::{EvaluatedRefusal, Refusal, TenantRefusal};
use crate::domain::reservation::OutcomeKind;
use crate::domain::scope::ScopePath;
use crate::domain::words::words;
use crate::evidence::envelope::Statement;
use crate::evidence::payload::Payload;
use crate::evidence::schema::Endpoint;
use crate::store::runtime::target::RuntimeTarget;
use crate::store::runtime::{commit::COMMIT, decide::DECIDE, release::RELEASE, reserve::RESERVE};
use crate::store::signature::{Refused, Signature};
use crate::store::target::Target as _;

words! {
    /// The content of an entry.
    EntryKind: "snake_case" {
        /// The create of a reservation, by its record.
        Create,
        /// Its commit or release, by its record.
        End,
        /// A decision.
        Decision,
        /// A dry run.
        DryRun,
        /// A refusal.
        Refusal,
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
    /// The request that was read back is not the one that was accepted.
    #[error("its request is not the one that was accepted")]
    AnotherRequest,
}

/// The statement of an entry. `record`: of the reservation that it names.
///
/// # Errors
/// [`EntryFault`].
pub fn of_entry(entry: &Record, record: &Record) -> Result<Attested, EntryFault> {
    known_format(entry, "inputs")?;
    let kind = EntryKind::parse(entry.text("kind")?).ok_or_else(|| RecordError::of("kind"))?;
    let id = || ReservationId::parse(entry.text("id")?).ok_or_else(|| RecordError::of("id"));
    let (inputs, attested) = match kind {
        EntryKind::Create => ("create_inputs", of_create(&id()?, record)?),
        EntryKind::End => ("end_inputs", of_end(&id()?, record)?),
        EntryKind::Decision => ("inputs", of_outcome(OutcomeKind::Decision, entry)?),
        EntryKind::DryRun => ("inputs", of_outcome(OutcomeKind::DryRun, entry)?),
        EntryKind::Refusal => ("inputs", Some(of_refusal(entry)?)),
    };
    let Some(attested) = attested else {
        known_format(record, inputs)?;
        return Err(RecordError::of(inputs).into());
    };
    let request = attested.statement.payload.request.as_ref();
    match request.map(digest_of).as_ref().map(PayloadHash::as_str) == entry.get("digest") {
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

/// The refusal of an entry: `inputs` as records have them, `at_ms`, `request_id`, `tenant`, `endpoint`; *`request`* as it is
/// attested; `reservation_id`, or `scope_path`; `unit` and `amount`, save of a release; and `reply`, a word a line.
///
/// # Errors
/// [`RecordError`] names the field.
pub fn of_refusal(entry: &Record) -> Result<Attested, RecordError> {
    let endpoint = Endpoint::parse(entry.text("endpoint")?);
    let endpoint = endpoint.ok_or_else(|| RecordError::of("endpoint"))?;
    let evaluated = refusal(endpoint, entry)?.evaluated();
    let evaluated = evaluated.ok_or_else(|| RecordError::of("reply"))?;
    let inputs: Inputs = entry.read("inputs")?;
    let request = entry.get("request");
    let request = request.map(|text| json(text, "request")).transpose()?;
    let request = request.map(Canonical::from);
    let reservation_id = entry.get("reservation_id").map(str::to_owned);
    let ids = (entry.text("request_id")?, &inputs.trace_id);
    let payload = error(endpoint, evaluated, request, reservation_id, ids)?;
    let statement = Statement {
        issued_at_ms: entry.integer("at_ms")?,
        trace_id: Some(inputs.trace_id.clone()),
        payload,
    };
    Ok(Attested { inputs, statement })
}

/// The payload of a refusal: `ids` of the request and its trace are in the body of the error.
///
/// # Errors
/// [`RecordError`] where the details are no JSON of ours.
pub(in crate::evidence) fn error(
    endpoint: Endpoint,
    evaluated: EvaluatedRefusal,
    request: Option<Canonical>,
    reservation_id: Option<String>,
    (request_id, trace_id): (&str, &TraceId),
) -> Result<Payload, RecordError> {
    let mut response = vec![
        ("error", Json::from(evaluated.code.as_str())),
        ("message", Json::from(&*evaluated.message)),
        ("request_id", Json::from(request_id)),
        ("trace_id", Json::from(trace_id.as_str())),
    ];
    if let Some(details) = evaluated.details {
        response.push(("details", json(&details.to_string(), "reply")?));
    }
    Ok(Payload {
        endpoint,
        refused: Some(evaluated.http_status),
        request,
        reservation_id,
        response: response.into_iter().collect::<Json>().into(),
    })
}

/// The refusal, as the request itself got it.
fn refusal(endpoint: Endpoint, entry: &Record) -> Result<Refusal, RecordError> {
    let refused = Refused::kept(signature_of(endpoint), entry.text("reply")?);
    let refused = refused.ok().flatten();
    let refused = refused.ok_or_else(|| RecordError::of("reply"))?;
    if let Refused::TenantClosed = refused {
        return Ok(TenantRefusal::Closed(entry.read::<TenantId>("tenant")?).into());
    }
    let refusal = match endpoint {
        Endpoint::Decide | Endpoint::Reserve => {
            let scope_path: ScopePath = entry.read("scope_path")?;
            RuntimeTarget::scope(&scope_path, entry.read::<Amount>("amount")?).refusal(&refused)
        }
        Endpoint::Commit => RuntimeTarget {
            amount: Some(entry.read::<Amount>("amount")?),
            ..RuntimeTarget::reservation(&reservation(entry)?)
        }
        .refusal(&refused),
        Endpoint::Release => RuntimeTarget::reservation(&reservation(entry)?).refusal(&refused),
    };
    refusal.ok_or_else(|| RecordError::of("reply"))
}

/// A dry run is decided by the script of decide, whose refusals are among those of reserve.
pub(super) fn signature_of(endpoint: Endpoint) -> &'static Signature {
    match endpoint {
        Endpoint::Decide => &DECIDE,
        Endpoint::Reserve => &RESERVE,
        Endpoint::Commit => &COMMIT,
        Endpoint::Release => &RELEASE,
    }
}

fn reservation(entry: &Record) -> Result<ReservationId, RecordError> {
    let id = ReservationId::parse(entry.text("reservation_id")?);
    id.ok_or_else(|| RecordError::of("reservation_id"))
}
