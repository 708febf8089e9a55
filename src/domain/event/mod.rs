//! Events: the one JSON text that is stored, signed and delivered, as a pure function of the facts that a script appended.
//!
//! Each reader of the log renders, so all must produce the same bytes: nothing here looks at a clock, at the
//! configuration or at another record.

mod correlation;
mod data;
pub mod query;
pub mod types;

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::fields::{object, plain_field};
use super::ids::{Partition, TRACE_ID_PATTERN};
use super::json::Json;
use super::log_entry::EntryId;
use super::moment::Moment;
use super::record::{Record, RecordError};
use super::words::words;
use types::{EventCategory, EventType};

/// An entry of a tenant's event log.
#[derive(Debug)]
pub struct StoredEvent<'a> {
    /// Where the log lies.
    pub partition: Partition,
    /// Tenant that owns the log.
    pub tenant: &'a str,
    /// Id of the entry in its stream, `<ms>-<sequence>`.
    pub entry: &'a str,
    /// The facts that the script appended.
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
    /// Its tenant, as [`tenant_digest`] names it.
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

object! {
    /// Something that has happened. An event has the same bytes in every response and delivery.
    #[derive(Debug, Clone)]
    pub struct Event: Serialize {
        /// Id of the event.
        pub event_id: String,
        /// Type of the event.
        pub event_type: EventType,
        /// Category of the event.
        pub category: EventCategory,
        /// When it happened.
        pub timestamp: Moment,
        /// Tenant whose state has changed, or `__system__`.
        pub tenant_id: String,
        /// Part of the service that emitted it.
        pub source: String,
        /// Scope of the budget or reservation.
        pub scope: Option<String>,
        /// The actor that caused it.
        pub actor: EventActor { required: false, inline: true },
        /// Payload; its members depend on the type.
        pub data: Json { required: false },
        /// The same for all events of one cause.
        pub correlation_id: Option<String>,
        /// Request that caused it.
        pub request_id: Option<String>,
        /// Trace of the request that caused it.
        pub trace_id: String { required: false, keyword: TRACE_ID_PATTERN },
        /// Number of occurrences, if one event reports several.
        pub metadata: Option<Json>,
    }
}

/// An event that was rendered before; responses have the same bytes.
#[derive(Debug, Clone, serde::Serialize)]
#[serde(transparent)]
pub struct RenderedEvent(Box<RawValue>);

impl RenderedEvent {
    /// Takes the text of the event.
    ///
    /// # Errors
    /// When it is not JSON.
    pub fn new(json: String) -> Result<Self, serde_json::Error> {
        RawValue::from_string(json).map(Self)
    }
}

plain_field!(RenderedEvent as Event);

object! {
    /// The actor that caused an event.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct EventActor: Read + Serialize {
        /// Kind of actor.
        pub kind: EventActorType { name: "type", required: false, inline: true },
        /// API key that was used.
        pub key_id: Option<String>,
        /// Address that the request came from.
        pub source_ip: Option<String>,
    }
}

words! {
    /// Kind of actor.
    EventActorType: "snake_case" {
        /// The operator.
        Admin,
        /// A tenant.
        ApiKey,
        /// The operator in a tenant's place.
        AdminOnBehalfOf,
        /// The service itself.
        System,
        /// A plan of the operator's: the period of a budget.
        Scheduler,
    }
}

impl StoredEvent<'_> {
    /// The event's id: it names the partition, the tenant by 96 bits of its digest, and the entry. The same entry always has
    /// the same id, so receivers recognize repeated deliveries, and an id leads back to its entry.
    pub fn event_id(&self) -> String {
        let digest = tenant_digest(self.tenant);
        format!("evt_{}_{digest}_{}", self.partition, self.entry)
    }

    /// The same for events that belong together; `None` for one that is found by its request.
    ///
    /// # Errors
    /// [`RecordError`] names the fact that is missing or unreadable.
    pub fn correlation_id(&self) -> Result<Option<String>, RecordError> {
        let facts = self.facts;
        let (event_type, at) = (facts.text("type")?, facts.read("at_ms")?);
        Ok(correlation::of(event_type, self.tenant, at, facts))
    }

    /// The event as JSON without white space. Absent members are left out.
    ///
    /// # Errors
    /// [`RecordError`] names the fact that is missing or unreadable; `type` for a type of a later release.
    pub fn envelope(&self) -> Result<String, RecordError> {
        let facts = self.facts;
        let text = |name: &str| facts.get(name).map(str::to_owned);
        let event_type: EventType = facts.read("type")?;
        let timestamp = facts.read("at_ms")?;
        let count = facts.optional::<i64>("metadata.count")?;
        let event = Event {
            event_id: self.event_id(),
            event_type,
            category: event_type.category(),
            timestamp,
            tenant_id: self.tenant.to_owned(),
            source: facts.read("source")?,
            scope: text("scope"),
            actor: EventActor {
                kind: facts.read("actor")?,
                key_id: text("key_id"),
                source_ip: text("source_ip"),
            },
            data: data::of(event_type.as_str(), self.tenant, facts)?,
            correlation_id: correlation::of(event_type.as_str(), self.tenant, timestamp, facts),
            request_id: text("request_id"),
            trace_id: facts.read("trace_id")?,
            metadata: count.map(|count| Json::from_iter([("count", count.into())])),
        };
        // JSON that was read or made here can be written.
        serde_json::to_string(&event).map_err(|_| RecordError::of("data"))
    }
}

#[cfg(test)]
mod tests;
