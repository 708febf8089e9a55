//! Webhook subscriptions: which events are delivered, where and how.

mod delivery;
mod headers;
mod rates;
mod requests;
mod selection;
mod settings;

pub use delivery::{DEFAULT_FLAGS, Delivery, DeliveryId, DeliveryStatus, sign, trace_of};
pub use headers::{HEADER_MASK, HeaderNames, check_headers};
pub use rates::{Metric, RateLimit, watched};
pub use requests::{
    DISABLE_AFTER_FAILURES, DISABLE_AFTER_SECONDS_MAX, SettableStatus, WebhookCreateRequest,
    WebhookReplay, WebhookUpdateRequest,
};
pub use selection::{CrossedThreshold, EventSummary, check_selectors, reported_on};
pub use settings::{RetryPolicy, Thresholds};

use std::fmt;

use super::fields::{DESCRIPTION_CHARS_MAX, NAME_CHARS_MAX, object, text_field};
use super::ids::{Partition, RandomPart, TenantId, random_id};
use super::json::FreeObject;
use super::moment::Moment;
use super::tenant::SYSTEM;
use super::words::words;
use crate::domain::event::types::{EventCategory, EventTypeName};

/// Most characters of a receiver's address.
pub const URL_CHARS_MAX: usize = 2048;

words! {
    /// Whether a subscription gets events.
    WebhookStatus: "SCREAMING_SNAKE_CASE" {
        /// It does.
        Active,
        /// Its owner has paused it.
        Paused,
        /// Its receiver failed too often, or its tenant was closed.
        Disabled,
    }
}

/// Owner of a subscription.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A tenant: gets its own events.
    Tenant(TenantId),
    /// The operator: gets the events of all tenants.
    System,
}

text_field!(Owner, Owner::parse);

impl Owner {
    /// Reads the stored form.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            SYSTEM => Some(Self::System),
            tenant => TenantId::parse(tenant).map(Self::Tenant),
        }
    }

    /// The stored form.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Tenant(tenant) => tenant.as_str(),
            Self::System => SYSTEM,
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

random_id! {
    /// Names a subscription: `whsub_05f_` and 24 hexadecimal digits.
    SubscriptionId: "whsub", RandomPart::LONG
}

random_id! {
    /// Names a replay: `replay_05f_` and 24 hexadecimal digits.
    ReplayId: "replay", RandomPart::LONG
}

object! {
    /// A webhook subscription. Only the response that creates it shows its signing secret.
    #[derive(Debug, Clone)]
    pub struct Subscription as "WebhookSubscription": Serialize + Recorded + Nested {
        /// Id of the subscription.
        pub subscription_id: SubscriptionId { recorded: false },
        /// Owner of the subscription: a tenant, or `__system__`.
        pub owner: Owner { name: "tenant_id", field: "tenant", recorded: false },
        /// Name.
        pub name: Option<String> { chars: ..=NAME_CHARS_MAX },
        /// Description.
        pub description: Option<String> { chars: ..=DESCRIPTION_CHARS_MAX },
        /// Address of the receiver; with `***` for its query where the key lacks `webhooks:write`.
        pub url: String { chars: ..=URL_CHARS_MAX },
        /// Event types.
        pub event_types: Vec<EventTypeName>,
        /// Further events, by category.
        pub event_categories: Vec<EventCategory> { unpublished_default: Vec::new(), skip_if: Vec::is_empty },
        /// Scopes whose events are delivered.
        pub scope_filter: Option<String>,
        /// When anomalies emit events.
        pub thresholds: Option<Thresholds>,
        /// Headers of each delivery, with `********` for every value.
        pub headers: HeaderNames {
            field: "header_names", unpublished_default: HeaderNames::default(), skip_if: HeaderNames::is_empty, recorded: false,
        },
        /// Status.
        pub status: WebhookStatus { recorded: false },
        /// How failed deliveries are retried.
        pub retry_policy: RetryPolicy { required: false },
        /// Consecutive failures after which the subscription is disabled.
        pub disable_after_failures: i64 {
            range: 1.., keyword: ("default", || DISABLE_AFTER_FAILURES.into()), required: false,
        },
        /// Seconds that the failures must last before they disable the subscription; absent: 0.
        pub disable_after_seconds: i64 { range: 0..=DISABLE_AFTER_SECONDS_MAX, default: 0, skip_if: |seconds| *seconds == 0 },
        /// Consecutive failures so far.
        pub consecutive_failures: i64 { required: false, keyword: ("readOnly", || true.into()), recorded: false },
        /// When it was created.
        pub created_at: Moment { field: "created_at_ms", recorded: false },
        /// When its settings were last changed.
        pub updated_at: Option<Moment> { field: "updated_at_ms", recorded: false },
        /// When a delivery was last attempted.
        pub last_triggered_at: Option<Moment> { field: "last_triggered_at_ms", recorded: false },
        /// When a delivery last succeeded.
        pub last_success_at: Option<Moment> { field: "last_success_at_ms", recorded: false },
        /// When a delivery last failed for good.
        pub last_failure_at: Option<Moment> { field: "last_failure_at_ms", recorded: false },
        /// Data that the owner chooses.
        pub metadata: Option<FreeObject>,
        /// Rises with each change of the settings.
        pub version: i64 { internal: true, recorded: false },
    }
    unsent {
        /// Never returned here.
        signing_secret: String { keyword: ("writeOnly", || true.into()) },
    }
}

impl Subscription {
    /// Replaces the query of the address by `***`.
    pub fn mask_query(&mut self) {
        if let Some((address, _)) = self.url.split_once('?') {
            self.url = format!("{address}?***");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
