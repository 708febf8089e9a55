//! What a request says of a subscription: the whole of a new one, or what is to change.

use std::collections::BTreeMap;

use secrecy::SecretString;

use super::{RetryPolicy, Thresholds, WebhookStatus};
use crate::domain::event::types::{EventCategory, EventTypeName};
use crate::domain::json::FreeObject;

/// What a change does to a value that may be absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Edit<T> {
    /// It stays as it is.
    #[default]
    Keep,
    /// It goes, or has its default again.
    Clear,
    /// It is replaced.
    Set(T),
}

impl<T> Edit<T> {
    /// From whether a member was `null`, and its value.
    pub fn of(cleared: bool, value: Option<T>) -> Self {
        match value {
            Some(value) => Self::Set(value),
            None if cleared => Self::Clear,
            None => Self::Keep,
        }
    }

    /// The value afterwards.
    pub fn apply(self, present: Option<T>) -> Option<T> {
        match self {
            Self::Keep => present,
            Self::Clear => None,
            Self::Set(value) => Some(value),
        }
    }

    /// What is set, if anything is.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Set(value) => Some(value),
            _ => None,
        }
    }
}

/// A subscription to be made.
#[derive(Debug)]
pub struct WebhookSettings {
    /// Where deliveries go.
    pub url: String,
    /// For people.
    pub name: Option<String>,
    /// For people.
    pub description: Option<String>,
    /// Which events, by type.
    pub event_types: Vec<EventTypeName>,
    /// Which events besides, by category.
    pub event_categories: Vec<EventCategory>,
    /// Events of which scopes.
    pub scope_filter: Option<String>,
    /// From when on anomalies are told.
    pub thresholds: Option<Thresholds>,
    /// The key of the signatures; `None`: a new one is made.
    pub signing_secret: Option<SecretString>,
    /// Sent with each delivery.
    pub headers: BTreeMap<String, SecretString>,
    /// How failed deliveries are repeated.
    pub retry_policy: RetryPolicy,
    /// Deliveries in a row that may fail.
    pub disable_after_failures: i64,
    /// The owner's own data.
    pub metadata: Option<FreeObject>,
}

/// A change of a subscription.
#[derive(Debug, Clone, Default)]
pub struct WebhookPatch {
    /// Where deliveries go.
    pub url: Option<String>,
    /// For people.
    pub name: Edit<String>,
    /// For people.
    pub description: Edit<String>,
    /// Which events, by type.
    pub event_types: Option<Vec<EventTypeName>>,
    /// Which events besides, by category.
    pub event_categories: Edit<Vec<EventCategory>>,
    /// Events of which scopes.
    pub scope_filter: Edit<String>,
    /// From when on anomalies are told.
    pub thresholds: Edit<Thresholds>,
    /// A new key of the signatures.
    pub signing_secret: Option<SecretString>,
    /// Sent with each delivery; the mask stands for the value that is there.
    pub headers: EditHeaders,
    /// How failed deliveries are repeated.
    pub retry_policy: Edit<RetryPolicy>,
    /// Deliveries in a row that may fail.
    pub disable_after_failures: Edit<i64>,
    /// `ACTIVE` or `PAUSED`.
    pub status: Option<WebhookStatus>,
    /// The owner's own data.
    pub metadata: Edit<FreeObject>,
}

/// Headers as a change names them.
pub type EditHeaders = Edit<BTreeMap<String, SecretString>>;
