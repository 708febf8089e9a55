//! The cause of a change: the actor and the request. Every event has it, also when it is delivered much later.

use smol_str::SmolStr;

use super::admin_key::AdminKeyName;
use super::event::EventActorType;
use super::ids::{RequestId, TraceId};
use crate::domain::api_key::secret::KeyId;

/// The actor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    /// A tenant's API key.
    ApiKey(KeyId),
    /// The holder of an unknown API key.
    UnknownKey,
    /// An admin key, which may have a name, on an operation of its own.
    Admin(Option<AdminKeyName>),
    /// The same on an operation that tenants have too.
    AdminOnBehalfOf(Option<AdminKeyName>),
    /// The service itself: sweeps and dispatchers.
    System,
    /// A plan of the operator's: the period of a budget.
    Scheduler,
}

impl Actor {
    /// Its kind, as events have it.
    pub fn kind(&self) -> EventActorType {
        match self {
            Self::ApiKey(_) | Self::UnknownKey => EventActorType::ApiKey,
            Self::Admin(_) => EventActorType::Admin,
            Self::AdminOnBehalfOf(_) => EventActorType::AdminOnBehalfOf,
            Self::System => EventActorType::System,
            Self::Scheduler => EventActorType::Scheduler,
        }
    }

    /// The API key, if it is known.
    pub fn key_id(&self) -> Option<&str> {
        match self {
            Self::ApiKey(key_id) => Some(key_id.as_str()),
            _ => None,
        }
    }

    /// The name of the admin key, if it has one.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Admin(name) | Self::AdminOnBehalfOf(name) => {
                name.as_ref().map(AdminKeyName::as_str)
            }
            Self::ApiKey(_) | Self::UnknownKey | Self::System | Self::Scheduler => None,
        }
    }

    /// The word of its kind.
    pub fn as_str(&self) -> &'static str {
        self.kind().as_str()
    }
}

/// The cause of an operation, as its events and audit entries carry it.
#[derive(Debug, Clone)]
pub struct Cause {
    /// Part of the service that acts; a word of the dialect.
    pub source: &'static str,
    /// The actor.
    pub actor: Actor,
    /// The peer's address, or the one that a trusted proxy forwarded.
    pub source_ip: Option<SmolStr>,
    /// The HTTP request; none for sweeps.
    pub request_id: Option<RequestId>,
    /// The logical operation.
    pub trace_id: TraceId,
    /// The flags of a valid inbound `traceparent`, two hexadecimal digits.
    pub trace_flags: Option<SmolStr>,
}

impl Cause {
    /// A sweep of expired reservations: no request, and a trace of its own for each batch.
    pub fn sweep() -> Self {
        Self {
            source: "expiry-sweeper",
            actor: Actor::System,
            source_ip: None,
            request_id: None,
            trace_id: TraceId::mint(),
            trace_flags: None,
        }
    }

    /// The turn of ledgers whose period is over: part of the sweep, as the operator has planned it.
    pub fn turn() -> Self {
        Self {
            actor: Actor::Scheduler,
            ..Self::sweep()
        }
    }

    /// The turn of ledgers that this request met, which it names.
    pub fn turn_met(&self) -> Self {
        Self {
            request_id: self.request_id.clone(),
            trace_id: self.trace_id.clone(),
            trace_flags: self.trace_flags.clone(),
            ..Self::turn()
        }
    }

    /// A detector of a dispatcher.
    pub fn detector() -> Self {
        Self {
            source: "anomaly-detector",
            ..Self::sweep()
        }
    }

    /// Lines of name and value, as scripts append them to the facts of an event. No value holds a line break.
    pub fn lines(&self) -> String {
        let key_id = self.actor.key_id();
        let pairs = [
            ("source", Some(self.source)),
            ("actor", Some(self.actor.as_str())),
            ("actor_name", self.actor.name()),
            ("key_id", key_id),
            ("source_ip", self.source_ip.as_deref()),
            (
                "request_id",
                self.request_id.as_ref().map(RequestId::as_str),
            ),
            ("trace_id", Some(self.trace_id.as_str())),
            ("trace_flags", self.trace_flags.as_deref()),
        ];
        let mut lines = String::with_capacity(256);
        for (name, value) in pairs {
            let Some(value) = value else { continue };
            let separator = if lines.is_empty() { "" } else { "\n" };
            for part in [separator, name, " ", value] {
                lines.push_str(part);
            }
        }
        lines
    }
}
