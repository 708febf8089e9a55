//! Events: the one JSON text that is stored, signed and delivered, as a pure function of the facts that a script appended.
//!
//! Whoever reads the log renders, so every reader must come to the same bytes: nothing here looks at a clock, at the
//! configuration or at another record.

mod correlation;
mod data;
mod members;
pub mod query;
pub mod types;

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::ids::Partition;
use super::log_entry::EntryId;
use super::moment::Moment;
use super::record::{Record, RecordError};
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

/// How the ids of a tenant's events name it: 96 bits of its digest, 16 characters.
pub fn tenant_digest(tenant: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(&Sha256::digest(tenant)[..12])
}

/// The id of an event, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventId {
    /// Where the log lies.
    pub partition: Partition,
    /// Whose it is, as [`tenant_digest`] names it.
    pub digest: String,
    /// The entry.
    pub entry: EntryId,
}

impl EventId {
    /// Reads an id as [`StoredEvent::event_id`] writes it.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("evt_")?;
        let (partition, rest) = rest.split_at_checked(3)?;
        let rest = rest.strip_prefix('_')?;
        let (digest, rest) = rest.split_at_checked(16)?;
        let id = Self {
            partition: Partition::parse(partition)?,
            digest: digest.to_owned(),
            entry: EntryId::parse(rest.strip_prefix('_')?)?,
        };
        (id.to_string() == text).then_some(id)
    }

    /// Whether it is of this tenant's log.
    pub fn is_of(&self, tenant: &str) -> bool {
        self.digest == tenant_digest(tenant)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "evt_{}_{}_{}", self.partition, self.digest, self.entry)
    }
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
        let digest = tenant_digest(self.tenant);
        format!("evt_{}_{digest}_{}", self.partition, self.entry)
    }

    /// Which events belong together with this one; `None` for one that is found by its request.
    ///
    /// # Errors
    /// [`RecordError`] names the fact that is missing or unreadable.
    pub fn correlation_id(&self) -> Result<Option<String>, RecordError> {
        let (event_type, at) = (
            self.facts.text("type")?,
            self.facts.read::<Moment>("at_ms")?,
        );
        Ok(correlation::of(event_type, self.tenant, at, self.facts))
    }

    /// The event as JSON without white space. Absent members are left out.
    ///
    /// # Errors
    /// [`RecordError`] names the fact that is missing or unreadable; `type` for a type of a later release.
    pub fn envelope(&self) -> Result<String, RecordError> {
        let facts = self.facts;
        let event_type = facts.text("type")?;
        let at = facts.read::<Moment>("at_ms")?;
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
