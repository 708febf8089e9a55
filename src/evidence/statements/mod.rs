//! What evidence attests of a record. Request, response, time and trace are read back from the fields of the record, so that the
//! first response, a replay, a reader and the signer produce the same envelope, for as long as the record is kept.
//!
//! The bytes of a format are frozen: what changes them takes another [`FORMAT`], and the code of the one before stays.

mod entry;
mod refusals;
mod requests;

use std::fmt;

use super::envelope::Statement;
use super::payload::{Payload, attested_response};
use crate::domain::evidence::AttestedRequest;
use crate::domain::ids::{ReservationId, TraceId};
use crate::domain::json::{Canonical, Json};
use crate::domain::record::{Record, RecordError, stored_text};
use crate::domain::reservation::{
    CommitResponse, DecisionResponse, OutcomeKind, ReleaseResponse, ReservationCreateResponse,
    Status,
};

pub use entry::{EntryFault, EntryKind, digest_of, of_entry, reservation_of};
pub(super) use refusals::error;
pub use refusals::of_refusal;

/// How this release makes envelopes from records.
pub const FORMAT: u32 = 1;

/// The fields of a reservation that its statements are made of. A record may hold a thousand extensions besides.
pub const FIELDS: [&str; 44] = [
    "status",
    "unit",
    "estimate",
    "charged",
    "actual",
    "scope_path",
    "budgeted",
    "subject",
    "action_kind",
    "action_name",
    "action_tags",
    "idempotency_key",
    "metadata",
    "caps",
    "overage_policy",
    "created_at_ms",
    "expires_at_ms",
    "extended_ms",
    "grace_ms",
    "create_inputs",
    "finalized_at_ms",
    "end_inputs",
    "end_key",
    "metrics",
    "committed_metadata",
    "release_reason",
    "create.1",
    "create.2",
    "create.3",
    "create.4",
    "create.5",
    "create.6",
    "commit.1",
    "commit.2",
    "commit.3",
    "commit.4",
    "commit.5",
    "commit.6",
    "release.1",
    "release.2",
    "release.3",
    "release.4",
    "release.5",
    "release.6",
];

/// The fields that a record stores for the envelope of an operation, beside its own fields: `<format> <issuer> <trace id>`, then words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inputs {
    /// How the envelope is made from the record.
    pub format: u32,
    /// Number of the issuer, who signs it.
    pub issuer: u32,
    /// Of the request.
    pub trace_id: TraceId,
    /// The members with a default that the client named, so that they are attested: see
    /// [`named_defaults`](crate::domain::evidence::named_defaults).
    pub named: String,
}

impl Inputs {
    /// Of an operation by this release.
    pub fn new(issuer: u32, trace_id: TraceId, request: &AttestedRequest) -> Self {
        Self {
            format: FORMAT,
            issuer,
            trace_id,
            named: request.named.clone(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(4, ' ');
        let (format, issuer) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Self {
            format,
            issuer,
            trace_id: TraceId::parse(words.next()?)?,
            named: words.next().unwrap_or_default().to_owned(),
        })
    }
}

impl fmt::Display for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {}",
            self.format,
            self.issuer,
            traced(&self.trace_id, &self.named)
        )
    }
}

/// The words that a script appends to format and issuer, which it knows itself.
pub(super) fn traced(trace_id: &TraceId, named: &str) -> String {
    match named {
        "" => trace_id.to_string(),
        named => format!("{trace_id} {named}"),
    }
}

stored_text!(Inputs, Self::parse);

/// A statement, and by whom it is issued.
#[derive(Debug, Clone)]
pub struct Attested {
    /// The inputs that the record stores for it.
    pub inputs: Inputs,
    /// The attested operation.
    pub statement: Statement,
}

/// The create of a reservation; `None` where evidence was off at that time, or in a format that this release does not know.
///
/// # Errors
/// [`RecordError`] names the field.
pub fn of_create(id: &ReservationId, record: &Record) -> Result<Option<Attested>, RecordError> {
    let Some(inputs) = known_inputs(record, "create_inputs")? else {
        return Ok(None);
    };
    // Values that depend on the clock are not attested.
    let response = ReservationCreateResponse::replayed(id.clone(), 0, record)?;
    let payload = Payload::Reserve {
        request: Canonical::of_json(&requests::create(record, &inputs.named)?),
        response: attested_part(&response)?,
    };
    attested(inputs, record.integer("created_at_ms")?, payload)
}

/// The commit or release of a reservation; `None` where it has neither, evidence was off at that time, or its format is not known.
///
/// # Errors
/// [`RecordError`] names the field.
pub fn of_end(id: &ReservationId, record: &Record) -> Result<Option<Attested>, RecordError> {
    let Some(inputs) = known_inputs(record, "end_inputs")? else {
        return Ok(None);
    };
    let reservation_id = id.to_string();
    let payload = match record.read("status")? {
        Status::Committed => Payload::Commit {
            reservation_id,
            request: Canonical::of_json(&requests::commit(record)?),
            response: attested_part(&CommitResponse::replayed(record)?)?,
        },
        Status::Released => Payload::Release {
            reservation_id,
            request: Canonical::of_json(&requests::release(record)?),
            response: attested_part(&ReleaseResponse::replayed(record)?)?,
        },
        Status::Active | Status::Expired => return Err(RecordError::of("status")),
    };
    attested(inputs, record.integer("finalized_at_ms")?, payload)
}

/// A decision or a dry run, whose request is kept as it is attested; `None` where evidence was off at that time, or its format is
/// not known.
///
/// # Errors
/// [`RecordError`] names the field.
pub fn of_outcome(kind: OutcomeKind, record: &Record) -> Result<Option<Attested>, RecordError> {
    let Some(inputs) = known_inputs(record, "inputs")? else {
        return Ok(None);
    };
    let request = record.text("request")?;
    let request = Json::parse(request.as_bytes()).map_err(|_| RecordError::of("request"))?;
    let request = Canonical::of_json(&request);
    let outcome = ReservationCreateResponse::replayed_outcome(kind, record)?;
    let payload = match kind {
        OutcomeKind::Decision => Payload::Decide {
            request,
            response: attested_part(&DecisionResponse::from(outcome))?,
        },
        OutcomeKind::DryRun => Payload::Reserve {
            request,
            response: attested_part(&outcome)?,
        },
    };
    attested(inputs, record.integer("created_at_ms")?, payload)
}

/// The inputs of a record; `None` where it has none, and where their format is not known.
fn known_inputs(record: &Record, field: &str) -> Result<Option<Inputs>, RecordError> {
    match record.get(field).and_then(unknown_format) {
        Some(_) => Ok(None),
        None => record.optional(field),
    }
}

/// The format of inputs that another release wrote. Only that release knows their other fields.
fn unknown_format(inputs: &str) -> Option<u32> {
    let format = inputs.split(' ').next()?.parse().ok()?;
    (format != FORMAT).then_some(format)
}

fn attested(
    inputs: Inputs,
    issued_at_ms: i64,
    payload: Payload,
) -> Result<Option<Attested>, RecordError> {
    let trace_id = Some(inputs.trace_id.clone());
    let statement = Statement {
        issued_at_ms,
        trace_id,
        payload,
    };
    Ok(Some(Attested { inputs, statement }))
}

/// The attested part of a response.
fn attested_part(response: &impl serde::Serialize) -> Result<Canonical, RecordError> {
    attested_response(response).ok_or_else(|| RecordError::of("response"))
}

#[cfg(test)]
mod tests;
