//! Webhook subscriptions: who wants to be told of which events, where and how.

mod delivery;
mod headers;
mod requests;
mod selection;
mod settings;
pub mod signature;

pub use delivery::{Delivery, DeliveryStatus};
pub use headers::{HEADER_MASK, check_headers};
pub use requests::{
    DISABLE_AFTER_FAILURES, SettableStatus, WebhookCreateRequest, WebhookUpdateRequest,
};
pub use selection::{ScopeMatch, Seen, SelectorProblem, check_selectors};
pub use settings::{RetryPolicy, Thresholds};

use std::fmt;

use super::fields::Read as _;
use super::ids::{Partition, TenantId, text_id};
use super::json::FreeObject;
use super::moment::Moment;
use super::record::{Record, RecordError};
use super::words::words;
use crate::domain::event::types::{EventCategory, EventTypeName};

/// Most characters of a receiver's address.
pub const URL_CHARS_MAX: usize = 2048;

words! {
    /// Whether a subscription gets events.
    WebhookStatus {
        /// It does.
        Active = "ACTIVE",
        /// Its owner has paused it.
        Paused = "PAUSED",
        /// Its receiver failed too often, or its tenant was closed.
        Disabled = "DISABLED",
    }
}

/// Whose subscription it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// A tenant's: told of that tenant's events.
    Tenant(TenantId),
    /// The operator's: told of every tenant's.
    System,
}

impl Owner {
    /// The name of the operator's own subscriptions, events and logs.
    pub const SYSTEM: &'static str = "__system__";

    /// Reads the stored form.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            Self::SYSTEM => Some(Self::System),
            tenant => TenantId::parse(tenant).map(Self::Tenant),
        }
    }

    /// The stored form.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Tenant(tenant) => tenant.as_str(),
            Self::System => Self::SYSTEM,
        }
    }

    /// Where everything of the owner lies.
    pub fn partition(&self) -> Partition {
        match self {
            Self::Tenant(tenant) => tenant.partition(),
            Self::System => Partition::FIRST,
        }
    }

    /// The tenant, if it is one.
    pub fn tenant(&self) -> Option<&TenantId> {
        match self {
            Self::Tenant(tenant) => Some(tenant),
            Self::System => None,
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl serde::Serialize for Owner {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

text_id! {
    /// Names a subscription: `whsub_05f_` and 24 hexadecimal digits.
    SubscriptionId
}

impl SubscriptionId {
    /// A new random id for a subscription of this partition.
    pub fn mint(partition: Partition) -> Self {
        Self(random_id("whsub", partition))
    }

    /// Accepts an id of the form that the service makes; another id names no subscription.
    pub fn parse(text: &str) -> Option<Self> {
        partition_of(text, "whsub_").map(|_| Self(text.to_owned()))
    }

    /// The partition of the subscription's record.
    pub fn partition(&self) -> Partition {
        partition_of(&self.0, "whsub_").expect("checked when the id was made")
    }
}

text_id! {
    /// Names a replay: `replay_05f_` and 24 hexadecimal digits.
    ReplayId
}

impl ReplayId {
    /// A new random id for a replay of a subscription of this partition.
    pub fn mint(partition: Partition) -> Self {
        Self(random_id("replay", partition))
    }
}

fn random_id(letters: &str, partition: Partition) -> String {
    let random: [u8; 12] = rand::random();
    let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{letters}_{partition}_{hex}")
}

fn partition_of(id: &str, letters: &str) -> Option<Partition> {
    let (partition, random) = id.strip_prefix(letters)?.split_once('_')?;
    let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let well_formed = random.len() == 24 && random.bytes().all(hex);
    Partition::parse(partition).filter(|_| well_formed)
}

/// A subscription as it is recorded, without its secrets.
#[derive(Debug, Clone)]
pub struct Subscription {
    /// Names it.
    pub subscription_id: SubscriptionId,
    /// Whose it is.
    pub owner: Owner,
    /// For people.
    pub name: Option<String>,
    /// For people.
    pub description: Option<String>,
    /// Where deliveries go.
    pub url: String,
    /// Which events, by type.
    pub event_types: Vec<EventTypeName>,
    /// Which events besides, by category.
    pub event_categories: Vec<EventCategory>,
    /// Events of which scopes.
    pub scope_filter: Option<String>,
    /// From when on anomalies are told.
    pub thresholds: Option<Thresholds>,
    /// Names of the headers that each delivery has besides the usual ones.
    pub header_names: Vec<String>,
    /// Whether it gets events.
    pub status: WebhookStatus,
    /// How failed deliveries are repeated.
    pub retry_policy: RetryPolicy,
    /// Deliveries in a row that may fail.
    pub disable_after_failures: i64,
    /// Deliveries in a row that have failed.
    pub consecutive_failures: i64,
    /// On the store's clock.
    pub created_at: Moment,
    /// When its settings were last changed.
    pub updated_at: Option<Moment>,
    /// When a delivery was last tried.
    pub last_triggered_at: Option<Moment>,
    /// When a delivery last succeeded.
    pub last_success_at: Option<Moment>,
    /// When a delivery last failed for good.
    pub last_failure_at: Option<Moment>,
    /// The owner's own data.
    pub metadata: Option<FreeObject>,
    /// Rises with each change of the settings.
    pub version: i64,
}

impl Subscription {
    /// Reads the stored fields.
    ///
    /// # Errors
    /// [`RecordError`] names the field.
    pub fn from_record(record: &Record) -> Result<Self, RecordError> {
        let words = |name: &str| record.get(name).unwrap_or_default().split_whitespace();
        let categories: Option<Vec<_>> = words("event_categories")
            .map(EventCategory::parse)
            .collect();
        let header_names = record.get("header_names").unwrap_or("[]");
        Ok(Self {
            subscription_id: record.word("subscription_id", SubscriptionId::parse)?,
            owner: record.word("tenant", Owner::parse)?,
            name: record.get("name").map(str::to_owned),
            description: record.get("description").map(str::to_owned),
            url: record.text("url")?.to_owned(),
            event_types: words("event_types")
                .map(EventTypeName::from_stored)
                .collect(),
            event_categories: categories.ok_or_else(|| RecordError::of("event_categories"))?,
            scope_filter: record.get("scope_filter").map(str::to_owned),
            thresholds: record.optional_word("thresholds", Thresholds::from_text)?,
            header_names: serde_json::from_str(header_names)
                .map_err(|_| RecordError::of("header_names"))?,
            status: record.word("status", WebhookStatus::parse)?,
            retry_policy: record.word("retry_policy", RetryPolicy::from_text)?,
            disable_after_failures: record.integer("disable_after_failures")?,
            consecutive_failures: record.integer("consecutive_failures")?,
            created_at: record.moment("created_at_ms")?,
            updated_at: record.optional_moment("updated_at_ms")?,
            last_triggered_at: record.optional_moment("last_triggered_at_ms")?,
            last_success_at: record.optional_moment("last_success_at_ms")?,
            last_failure_at: record.optional_moment("last_failure_at_ms")?,
            metadata: record
                .optional_word("metadata", |text| FreeObject::from_stored(text.to_owned()))?,
            version: record.integer("version")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_carries_its_partition() {
        let partition = Partition::new(0x05f).expect("below 1024");
        let id = SubscriptionId::mint(partition);
        assert!(id.as_str().starts_with("whsub_05f_") && id.as_str().len() == 34);
        assert_eq!(id.partition(), partition);
        assert_eq!(SubscriptionId::parse(id.as_str()), Some(id.clone()));
        for text in [
            "",
            "whsub_05f_",
            "whsub_400_0123456789abcdef01234567",
            "whsub_05f_0123456789ABCDEF01234567",
            "replay_05f_0123456789abcdef01234567",
            "bulk-action",
        ] {
            assert_eq!(SubscriptionId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_owner_is_a_tenant_or_the_operator() {
        assert_eq!(Owner::parse("__system__"), Some(Owner::System));
        assert_eq!(Owner::System.partition(), Partition::FIRST);
        assert_eq!(
            Owner::parse("acme").map(|owner| owner.to_string()),
            Some("acme".into())
        );
        assert_eq!(Owner::parse("__admin__"), None);
    }
}
