//! Events: the one JSON text that is stored, signed and delivered, as a pure function of the facts that a script appended.
//!
//! Whoever reads the log renders, so every reader must come to the same bytes: nothing here looks at a clock, at the
//! configuration or at another record.

mod correlation;
mod data;
mod members;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::ids::Partition;
use super::moment::Moment;
use super::reservation::{Record, RecordError};
use members::{Member, Members};

/// An entry of a tenant's event log.
#[derive(Debug)]
pub struct StoredEvent<'a> {
    /// Where the log lies.
    pub partition: Partition,
    /// Whose log it is.
    pub tenant: &'a str,
    /// Id of the entry in its stream, `<ms>-<sequence>`.
    pub entry: &'a str,
    /// What the script appended.
    pub facts: &'a Record,
}

#[derive(Serialize)]
struct Envelope<'a> {
    event_id: String,
    event_type: &'a str,
    category: &'a str,
    timestamp: Moment,
    tenant_id: &'a str,
    source: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'a str>,
    actor: Actor<'a>,
    data: Members,
    #[serde(skip_serializing_if = "Option::is_none")]
    correlation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    trace_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Members>,
}

#[derive(Serialize)]
struct Actor<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_ip: Option<&'a str>,
}

impl StoredEvent<'_> {
    /// The event's id: it names the partition, the tenant by 96 bits of its digest, and the entry. The same entry always has
    /// the same id, so a delivery that is repeated can be told, and an id leads back to its entry.
    pub fn event_id(&self) -> String {
        let digest = BASE64_URL_SAFE_NO_PAD.encode(&Sha256::digest(self.tenant)[..12]);
        format!("evt_{}_{digest}_{}", self.partition, self.entry)
    }

    /// Which events belong together with this one; `None` for one that is found by its request.
    ///
    /// # Errors
    /// [`RecordError`] names the fact that is missing or unreadable.
    pub fn correlation_id(&self) -> Result<Option<String>, RecordError> {
        let (event_type, at) = (self.facts.text("type")?, self.facts.moment("at_ms")?);
        Ok(correlation::of(event_type, self.tenant, at, self.facts))
    }

    /// The event as JSON without white space. Absent members are left out.
    ///
    /// # Errors
    /// [`RecordError`] names the fact that is missing or unreadable; `type` for a type of a later release.
    pub fn envelope(&self) -> Result<String, RecordError> {
        let facts = self.facts;
        let event_type = facts.text("type")?;
        let at = facts.moment("at_ms")?;
        let count = facts.optional_integer("metadata.count")?;
        let envelope = Envelope {
            event_id: self.event_id(),
            event_type,
            category: event_type.split('.').next().unwrap_or_default(),
            timestamp: at,
            tenant_id: self.tenant,
            source: facts.text("source")?,
            scope: facts.get("scope"),
            actor: Actor {
                kind: facts.text("actor")?,
                key_id: facts.get("key_id"),
                source_ip: facts.get("source_ip"),
            },
            data: data::of(event_type, self.tenant, facts)?,
            correlation_id: correlation::of(event_type, self.tenant, at, facts),
            request_id: facts.get("request_id"),
            trace_id: facts.text("trace_id")?,
            metadata: count.map(|count| Members(vec![("count", Member::Integer(count))])),
        };
        // Texts and integers; there is nothing that could fail to be written.
        serde_json::to_string(&envelope).map_err(|_| RecordError::of("data"))
    }
}

#[cfg(test)]
mod tests;
