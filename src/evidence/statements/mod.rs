//! What evidence attests of a record. Request, response, time and trace are read back from the fields of the record, so that the
//! first response, a replay, a reader and the signer produce the same envelope, for as long as the record is kept.
//!
//! The bytes of a format are frozen: what changes them takes another [`FORMAT`], and the code of the one before stays.

mod entry;

use std::fmt;
use std::sync::LazyLock;

use super::envelope::Statement;
use super::payload::{Payload, attested_response};
use super::schema::Endpoint;
use crate::domain::evidence::AttestedRequest;
use crate::domain::ids::{ReservationId, TraceId};
use crate::domain::json::Json;
use crate::domain::record::{Record, RecordError, stored_text};
use crate::domain::reservation::{
    CommitResponse, DecisionResponse, OutcomeKind, ReleaseResponse, ReservationCreateResponse,
    Status,
};
use crate::domain::scope::Level;

pub(super) use entry::error;
pub use entry::{EntryFault, EntryKind, digest_of, of_entry, of_refusal};

/// How this release makes envelopes from records.
pub const FORMAT: u32 = 1;

/// The same of a denial whose details have the figures of the ledger. An earlier release would leave them out.
const FORMAT_WITH_FIGURES: u32 = 2;

/// The same of one whose details have the window of a limit that is full.
const FORMAT_WITH_WINDOW: u32 = 3;

/// The fields of a reservation that its statements are made of, beside the ledgers after each operation.
const OWN_FIELDS: [&str; 26] = [
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
];

/// The fields of a reservation that its statements are made of. A record may hold a thousand extensions besides.
pub static FIELDS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let depths = || 1..=Level::ALL.len();
    let ledgers = ["create", "commit", "release"]
        .into_iter()
        .flat_map(|operation| depths().map(move |depth| format!("{operation}.{depth}")));
    let ledgers = ledgers.map(|name| &*name.leak());
    OWN_FIELDS.into_iter().chain(ledgers).collect()
});

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
    let request = create_request(record, &inputs.named)?;
    let at_ms = record.integer("created_at_ms")?;
    attested(inputs, at_ms, (Endpoint::Reserve, None), request, &response)
}

/// The commit or release of a reservation; `None` where it has neither, evidence was off at that time, or its format is not known.
///
/// # Errors
/// [`RecordError`] names the field.
pub fn of_end(id: &ReservationId, record: &Record) -> Result<Option<Attested>, RecordError> {
    let Some(inputs) = known_inputs(record, "end_inputs")? else {
        return Ok(None);
    };
    let (at_ms, id) = (record.integer("finalized_at_ms")?, Some(id.to_string()));
    match record.read("status")? {
        Status::Committed => {
            let (request, response) = (commit_request(record)?, CommitResponse::replayed(record)?);
            attested(inputs, at_ms, (Endpoint::Commit, id), request, &response)
        }
        Status::Released => {
            let (request, response) =
                (release_request(record)?, ReleaseResponse::replayed(record)?);
            attested(inputs, at_ms, (Endpoint::Release, id), request, &response)
        }
        Status::Active | Status::Expired => Err(RecordError::of("status")),
    }
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
    let request = json(record.text("request")?, "request")?;
    let outcome = ReservationCreateResponse::replayed_outcome(kind, record)?;
    let at_ms = record.integer("created_at_ms")?;
    match kind {
        OutcomeKind::Decision => {
            let decision = DecisionResponse::from(outcome);
            attested(inputs, at_ms, (Endpoint::Decide, None), request, &decision)
        }
        OutcomeKind::DryRun => {
            attested(inputs, at_ms, (Endpoint::Reserve, None), request, &outcome)
        }
    }
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
    (![FORMAT, FORMAT_WITH_FIGURES, FORMAT_WITH_WINDOW].contains(&format)).then_some(format)
}

fn attested(
    inputs: Inputs,
    issued_at_ms: i64,
    (endpoint, reservation_id): (Endpoint, Option<String>),
    request: Json,
    response: &impl serde::Serialize,
) -> Result<Option<Attested>, RecordError> {
    let response = attested_response(response).ok_or_else(|| RecordError::of("response"))?;
    let statement = Statement {
        issued_at_ms,
        trace_id: Some(inputs.trace_id.clone()),
        payload: Payload::success(endpoint, reservation_id, request.into(), response),
    };
    Ok(Some(Attested { inputs, statement }))
}

/// The request of a reservation as its record has it. What a client sent is attested and nothing else, so the record also says
/// which members with a default were `named`.
fn create_request(record: &Record, named: &str) -> Result<Json, RecordError> {
    let subject = parsed("subject", &record.subject()?)?;
    let action = parsed("action_kind", &record.action()?)?;
    let mut members = vec![
        (
            "idempotency_key",
            Json::from(record.text("idempotency_key")?),
        ),
        ("subject", subject),
        ("action", action),
        ("estimate", amount(record, "estimate")?),
    ];
    members.extend(free(record, "metadata", "metadata")?);
    for word in named.split_whitespace() {
        members.push(match word.split_at(1) {
            ("t", lifetime) => {
                let lifetime = lifetime.parse::<i64>();
                let lifetime = lifetime.map_err(|_| RecordError::of("create_inputs"))?;
                ("ttl_ms", Json::from(lifetime))
            }
            ("g", _) => ("grace_period_ms", Json::from(record.integer("grace_ms")?)),
            ("o", _) => ("overage_policy", Json::from(record.text("overage_policy")?)),
            ("d", _) => ("dry_run", Json::Bool(false)),
            _ => return Err(RecordError::of("create_inputs")),
        });
    }
    Ok(members.into_iter().collect())
}

/// The request of a commit.
fn commit_request(record: &Record) -> Result<Json, RecordError> {
    let mut members = vec![
        ("idempotency_key", Json::from(record.text("end_key")?)),
        ("actual", amount(record, "actual")?),
    ];
    members.extend(free(record, "metrics", "metrics")?);
    members.extend(free(record, "committed_metadata", "metadata")?);
    Ok(members.into_iter().collect())
}

/// The request of a release.
fn release_request(record: &Record) -> Result<Json, RecordError> {
    let mut members = vec![("idempotency_key", Json::from(record.text("end_key")?))];
    let reason = record.get("release_reason");
    members.extend(reason.map(|reason| ("reason", Json::from(reason))));
    Ok(members.into_iter().collect())
}

/// An amount in the unit of the reservation.
fn amount(record: &Record, field: &str) -> Result<Json, RecordError> {
    let members = [
        ("unit", Json::from(record.text("unit")?)),
        ("amount", Json::from(record.integer(field)?)),
    ];
    Ok(members.into_iter().collect())
}

/// A member that the record keeps as JSON, if it has it.
fn free(
    record: &Record,
    field: &str,
    member: &'static str,
) -> Result<Option<(&'static str, Json)>, RecordError> {
    let Some(text) = record.get(field) else {
        return Ok(None);
    };
    Ok(Some((member, json(text, field)?)))
}

fn parsed(field: &str, value: &impl serde::Serialize) -> Result<Json, RecordError> {
    let text = serde_json::to_string(value).map_err(|_| RecordError::of(field))?;
    json(&text, field)
}

fn json(text: &str, field: &str) -> Result<Json, RecordError> {
    Json::parse(text.as_bytes()).map_err(|_| RecordError::of(field))
}

#[cfg(test)]
mod tests;
