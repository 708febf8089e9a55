//! The requests that create and change a subscription, and that replay events to it.

use std::collections::BTreeMap;

use secrecy::{ExposeSecret, SecretString};

use super::{HEADER_MASK, RetryPolicy, Thresholds, URL_CHARS_MAX, WebhookStatus, check_headers};
use crate::domain::event::types::{EventCategory, EventTypeName};
use crate::domain::fields::{Blank, DESCRIPTION_CHARS_MAX, NAME_CHARS_MAX, Object, Patch, object};
use crate::domain::json::FreeObject;
use crate::domain::moment::{Moment, Window};
use crate::domain::scope::SCOPE_CHARS_MAX;
use crate::domain::words::words;

/// Consecutive failures after which a subscription is disabled, unless it says otherwise.
pub const DISABLE_AFTER_FAILURES: i64 = 10;
/// Most that a subscription may say.
const FAILURES_MAX: i64 = 10_000;
/// For how long failures may have to last at most before they disable a subscription: a week.
pub const DISABLE_AFTER_SECONDS_MAX: i64 = 604_800;
/// Most event types, and most categories, of one subscription.
const SELECTORS_MAX: usize = 100;
/// Fewest and most characters of a signing secret.
const SECRET_CHARS: std::ops::RangeInclusive<usize> = 16..=256;

object! {
    /// Creates a webhook subscription.
    #[derive(Debug)]
    pub struct WebhookCreateRequest: Read + Written {
        /// Name.
        pub name: Option<String> { chars: ..=NAME_CHARS_MAX },
        /// Description.
        pub description: Option<String> { chars: ..=DESCRIPTION_CHARS_MAX },
        /// Address of the receiver; checked against the security configuration.
        pub url: String { chars: ..=URL_CHARS_MAX, blank: Blank::Refused },
        /// Event types, or `custom.` and a name. At most 100.
        pub event_types: Vec<EventTypeName> { items: 1.., unpublished_items: 1..=SELECTORS_MAX, distinct: true },
        /// Further events, by category.
        pub event_categories: Vec<EventCategory> {
            unpublished_items: ..=SELECTORS_MAX, distinct: true, unpublished_default: Vec::new(),
        },
        /// Scopes whose events are delivered: one scope, or the beginning of scopes and `*`.
        pub scope_filter: Option<String> { unpublished_chars: ..=SCOPE_CHARS_MAX, blank: Blank::Null },
        /// When anomalies emit events.
        pub thresholds: Option<Thresholds>,
        /// Key of the signatures, 16 to 256 characters. Absent: the service generates one.
        pub signing_secret: Option<SecretString> {
            unpublished_chars: SECRET_CHARS, blank: Blank::Null, keyword: ("example", || "whsec_0123456789".into()), recorded: false,
        },
        /// Headers sent with each delivery besides the usual ones; responses mask their values.
        pub headers: Option<BTreeMap<String, SecretString>> { recorded: false },
        /// How failed deliveries are retried.
        pub retry_policy: RetryPolicy { unpublished_default: RetryPolicy::default() },
        /// Consecutive failures after which the subscription is disabled; at most 10,000.
        pub disable_after_failures: i64 {
            range: 1.., unpublished_range: 1..=FAILURES_MAX, default: DISABLE_AFTER_FAILURES,
        },
        /// Seconds that these failures must last: the first of them must be at least this old. 0: their number alone decides.
        pub disable_after_seconds: i64 { range: 0..=DISABLE_AFTER_SECONDS_MAX, default: 0 },
        /// Data that the owner chooses.
        pub metadata: Option<FreeObject>,
    }
    check |request, object| {
        let Some(headers) = &request.headers else { return };
        if headers.values().any(|value| value.expose_secret() == HEADER_MASK) {
            object.refuse_member("headers", "has a mask where a value should be");
        }
        refuse_bad_headers(headers, object);
    }
}

object! {
    /// Changes a webhook subscription. Absent members keep their values; `null` clears, or restores the default.
    #[derive(Debug, Clone)]
    pub struct WebhookUpdateRequest: Read {
        /// Name.
        pub name: Patch<String> { chars: ..=NAME_CHARS_MAX },
        /// Description.
        pub description: Patch<String> { chars: ..=DESCRIPTION_CHARS_MAX },
        /// Address of the receiver; checked against the security configuration.
        pub url: Option<String> { chars: ..=URL_CHARS_MAX, blank: Blank::Refused },
        /// Event types. May be empty where categories remain.
        pub event_types: Option<Vec<EventTypeName>> { unpublished_items: ..=SELECTORS_MAX, distinct: true },
        /// Further events, by category.
        pub event_categories: Patch<Vec<EventCategory>> { unpublished_items: ..=SELECTORS_MAX, distinct: true },
        /// Scopes whose events are delivered; empty: all.
        pub scope_filter: Patch<String> { unpublished_chars: ..=SCOPE_CHARS_MAX, blank: Blank::Null },
        /// When anomalies emit events; replaced as a whole.
        pub thresholds: Patch<Thresholds>,
        /// New key of the signatures, 16 to 256 characters.
        pub signing_secret: Option<SecretString> { unpublished_chars: SECRET_CHARS, keyword: ("example", || "whsec_0123456789".into()) },
        /// Replaced as a whole; `********` keeps the value that is there.
        pub headers: Patch<BTreeMap<String, SecretString>>,
        /// Replaced as a whole.
        pub retry_policy: Patch<RetryPolicy>,
        /// Consecutive failures after which the subscription is disabled; at most 10,000.
        pub disable_after_failures: Patch<i64> { range: 1.., unpublished_range: 1..=FAILURES_MAX },
        /// Seconds that these failures must last: the first of them must be at least this old. 0: their number alone decides.
        pub disable_after_seconds: Patch<i64> { range: 0..=DISABLE_AFTER_SECONDS_MAX },
        /// Whether events are delivered. `ACTIVE` resets the failures.
        pub status: Option<SettableStatus> { inline: true },
        /// Replaced as a whole.
        pub metadata: Patch<FreeObject>,
    }
    check |request, object| {
        if let Patch::Set(headers) = &request.headers {
            refuse_bad_headers(headers, object);
        }
    }
}

object! {
    /// Queues events to be delivered again.
    #[derive(Debug)]
    pub struct WebhookReplay: Read + Open {
        /// Start of the time from which events are taken.
        pub from: Option<Moment>,
        /// End of the time from which events are taken.
        pub to: Option<Moment>,
        /// Event types, of those that the subscription selects. Absent: all of them.
        pub event_types: Option<Vec<EventTypeName>> { unpublished_items: ..=100 },
        /// Maximum number of events; if more match, none is queued.
        pub max_events: i64 { range: 1..=1_000, default: 100 },
    }
}

impl WebhookReplay {
    /// The time from which events are taken.
    pub fn window(&self) -> Window {
        Window {
            from_ms: self.from.map(Moment::as_ms),
            to_ms: self.to.map(Moment::as_ms),
        }
    }
}

fn refuse_bad_headers(headers: &BTreeMap<String, SecretString>, object: &mut Object<'_>) {
    if let Err(reason) = check_headers(headers) {
        object.refuse_member("headers", reason);
    }
}

words! {
    /// A status that requests can set.
    SettableStatus: "SCREAMING_SNAKE_CASE" {
        /// The subscription gets events.
        Active,
        /// It does not.
        Paused,
    }
}

impl From<SettableStatus> for WebhookStatus {
    fn from(status: SettableStatus) -> Self {
        match status {
            SettableStatus::Active => Self::Active,
            SettableStatus::Paused => Self::Paused,
        }
    }
}
