//! What requests say of webhook subscriptions.

use std::collections::BTreeMap;

use secrecy::SecretString;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object as ObjectSchema, ObjectBuilder, Type};

use crate::domain::event::types::{EventCategory, EventType, EventTypeName};
use crate::domain::fields::{Object, Problems, read_body};
use crate::domain::json::{FreeObject, Json};
use crate::domain::moment::Moment;
use crate::domain::webhook::{
    DISABLE_AFTER_FAILURES, Edit, HEADER_MASK, RetryPolicy, Thresholds, WebhookPatch,
    WebhookSettings, WebhookStatus, check_headers,
};
use crate::domain::words::words;
use crate::egress::URL_CHARS_MAX;

/// Most event types, and most categories, of one subscription.
const SELECTORS_MAX: usize = 100;
/// Most failures in a row that a subscription may bear.
const FAILURES_MAX: i64 = 10_000;
/// Most characters of a filter: a scope.
const FILTER_CHARS_MAX: usize = 1024;
const SECRET_CHARS: std::ops::RangeInclusive<usize> = 16..=256;

words! {
    /// What a subscription's status can be set to.
    SettableStatus {
        /// It gets events.
        Active = "ACTIVE",
        /// It gets none.
        Paused = "PAUSED",
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

/// Makes a webhook subscription.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the fields describe; reading makes settings")]
pub struct WebhookCreateRequest {
    /// For people.
    #[schema(max_length = 256, nullable = false)]
    name: Option<String>,
    /// For people.
    #[schema(max_length = 1024, nullable = false)]
    description: Option<String>,
    /// Where deliveries go; judged by the security configuration.
    #[schema(max_length = 2048)]
    url: String,
    /// Which events, by type; `custom.` and a name too. At most 100.
    #[schema(value_type = Vec<EventType>, min_items = 1)]
    event_types: Vec<EventTypeName>,
    /// Which events besides, by category.
    #[schema(nullable = false)]
    event_categories: Option<Vec<EventCategory>>,
    /// Events of which scopes: one scope, or the beginning of scopes and `*`.
    #[schema(nullable = false)]
    scope_filter: Option<String>,
    /// From when on anomalies are told.
    #[schema(nullable = false)]
    thresholds: Option<Thresholds>,
    /// The key of the signatures, 16 to 256 characters. Absent: a new one is made.
    #[schema(nullable = false, example = "whsec_0123456789")]
    signing_secret: Option<String>,
    /// Sent with each delivery besides the usual headers; shown by name only.
    #[schema(nullable = false)]
    headers: Option<BTreeMap<String, String>>,
    /// How failed deliveries are repeated.
    #[schema(nullable = false)]
    retry_policy: Option<RetryPolicy>,
    /// Deliveries in a row that may fail before it is disabled; at most 10,000.
    #[schema(minimum = 1, default = 10, nullable = false)]
    disable_after_failures: Option<i64>,
    /// The owner's own data.
    #[schema(value_type = Object, required = false)]
    metadata: Option<FreeObject>,
}

impl WebhookCreateRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Problems`], all of them.
    pub fn from_json(body: Json) -> Result<WebhookSettings, Problems> {
        read_body(body, |body| {
            let url = body.required("url", |value| value.text(URL_CHARS_MAX));
            let event_types = body.required("event_types", |value| {
                value.array(SELECTORS_MAX, EventTypeName::read)
            });
            if event_types.as_ref().is_some_and(Vec::is_empty) {
                body.refuse_member("event_types", "must have at least one item");
            }
            let common = Common::read(body, false);
            // A blank secret is as good as none here; a change must name one.
            let secret = match body.blank("signing_secret") {
                true => None,
                false => secret(body),
            };
            Some(WebhookSettings {
                url: url?,
                event_types: collapsed(event_types?),
                name: common.name.apply(None),
                description: common.description.apply(None),
                event_categories: common.event_categories.apply(None).unwrap_or_default(),
                scope_filter: common.scope_filter.apply(None),
                thresholds: common.thresholds.apply(None),
                signing_secret: secret,
                headers: common.headers.apply(None).unwrap_or_default(),
                retry_policy: common.retry_policy.apply(None).unwrap_or_default(),
                disable_after_failures: common
                    .disable_after_failures
                    .apply(None)
                    .unwrap_or(DISABLE_AFTER_FAILURES),
                metadata: common.metadata.apply(None),
            })
        })
    }
}

/// Changes a webhook subscription. What is absent stays; `null` clears, or brings the default back.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "the fields describe; reading makes a patch")]
pub struct WebhookUpdateRequest {
    /// For people.
    #[schema(max_length = 256, nullable = false)]
    name: Option<String>,
    /// For people.
    #[schema(max_length = 1024, nullable = false)]
    description: Option<String>,
    /// Where deliveries go; judged by the security configuration.
    #[schema(max_length = 2048, nullable = false)]
    url: Option<String>,
    /// Which events, by type. May be empty where categories remain.
    #[schema(value_type = Option<Vec<EventType>>, nullable = false)]
    event_types: Option<Vec<EventTypeName>>,
    /// Which events besides, by category.
    #[schema(nullable = false)]
    event_categories: Option<Vec<EventCategory>>,
    /// Events of which scopes; empty: of all.
    #[schema(nullable = false)]
    scope_filter: Option<String>,
    /// From when on anomalies are told; replaced as a whole.
    #[schema(nullable = false)]
    thresholds: Option<Thresholds>,
    /// A new key of the signatures, 16 to 256 characters.
    #[schema(nullable = false, example = "whsec_0123456789")]
    signing_secret: Option<String>,
    /// Replaced as a whole; `********` keeps the value that is there.
    #[schema(nullable = false)]
    headers: Option<BTreeMap<String, String>>,
    /// Replaced as a whole.
    #[schema(nullable = false)]
    retry_policy: Option<RetryPolicy>,
    /// Deliveries in a row that may fail before it is disabled; at most 10,000.
    #[schema(minimum = 1, nullable = false)]
    disable_after_failures: Option<i64>,
    /// Whether it gets events. `ACTIVE` forgets the failures.
    #[schema(schema_with = status_schema, required = false)]
    status: Option<SettableStatus>,
    /// Replaced as a whole.
    #[schema(value_type = Object, required = false)]
    metadata: Option<FreeObject>,
}

impl WebhookUpdateRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Problems`], all of them.
    pub fn from_json(body: Json) -> Result<WebhookPatch, Problems> {
        read_body(body, |body| {
            let url = body.optional("url", |value| value.text(URL_CHARS_MAX));
            let event_types = body.optional("event_types", |value| {
                value.array(SELECTORS_MAX, EventTypeName::read)
            });
            let common = Common::read(body, true);
            let signing_secret = secret(body);
            let status = body.optional("status", SettableStatus::read);
            Some(WebhookPatch {
                url,
                name: common.name,
                description: common.description,
                event_types: event_types.map(collapsed),
                event_categories: common.event_categories,
                scope_filter: common.scope_filter,
                thresholds: common.thresholds,
                signing_secret,
                headers: common.headers,
                retry_policy: common.retry_policy,
                disable_after_failures: common.disable_after_failures,
                status: status.map(WebhookStatus::from),
                metadata: common.metadata,
            })
        })
    }
}

/// The members that a new subscription and a change read alike.
struct Common {
    name: Edit<String>,
    description: Edit<String>,
    event_categories: Edit<Vec<EventCategory>>,
    scope_filter: Edit<String>,
    thresholds: Edit<Thresholds>,
    headers: Edit<BTreeMap<String, SecretString>>,
    retry_policy: Edit<RetryPolicy>,
    disable_after_failures: Edit<i64>,
    metadata: Edit<FreeObject>,
}

impl Common {
    fn read(body: &mut Object<'_>, masks: bool) -> Self {
        let null = |body: &Object<'_>, name: &str| body.is_null(name);
        let cleared = null(body, "name");
        let name = Edit::of(cleared, body.optional("name", |v| v.string(0..=256)));
        let cleared = null(body, "description");
        let description = body.optional("description", |v| v.string(0..=1024));
        let description = Edit::of(cleared, description);
        let cleared = null(body, "event_categories");
        let categories = body.optional("event_categories", |value| {
            value.array(SELECTORS_MAX, EventCategory::read)
        });
        let event_categories = Edit::of(cleared, categories.map(collapsed));
        let cleared = null(body, "scope_filter");
        let filter = body.optional("scope_filter", |v| v.string(0..=FILTER_CHARS_MAX));
        let scope_filter = match Edit::of(cleared, filter) {
            Edit::Set(filter) if filter.trim().is_empty() => Edit::Clear,
            other => other,
        };
        let cleared = null(body, "thresholds");
        let thresholds = Edit::of(cleared, body.optional("thresholds", Thresholds::read));
        let cleared = null(body, "headers");
        let headers = Edit::of(cleared, headers(body, masks));
        let cleared = null(body, "retry_policy");
        let retry_policy = Edit::of(cleared, body.optional("retry_policy", RetryPolicy::read));
        let cleared = null(body, "disable_after_failures");
        let failures = body.optional("disable_after_failures", |v| v.integer(1..=FAILURES_MAX));
        let cleared_metadata = null(body, "metadata");
        let metadata = body.optional("metadata", |value| value.free_object());
        Self {
            name,
            description,
            event_categories,
            scope_filter,
            thresholds,
            headers,
            retry_policy,
            disable_after_failures: Edit::of(cleared, failures),
            metadata: Edit::of(cleared_metadata, metadata),
        }
    }
}

fn secret(body: &mut Object<'_>) -> Option<SecretString> {
    let secret = body.optional("signing_secret", |value| value.string(SECRET_CHARS));
    secret.map(SecretString::from)
}

fn headers(body: &mut Object<'_>, masks: bool) -> Option<BTreeMap<String, SecretString>> {
    let map = body.optional("headers", |value| value.string_map(usize::MAX, usize::MAX))?;
    if !masks && map.values().any(|value| value == HEADER_MASK) {
        body.refuse_member("headers", "has a mask where a value should be");
    }
    let headers = map
        .into_iter()
        .map(|(name, value)| (name, value.into()))
        .collect();
    if let Err(reason) = check_headers(&headers) {
        body.refuse_member("headers", reason);
    }
    Some(headers)
}

/// Each once, in the order in which they came.
fn collapsed<T: PartialEq>(items: Vec<T>) -> Vec<T> {
    let mut kept = Vec::with_capacity(items.len());
    for item in items {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

/// Delivers events once more.
#[derive(Debug, ToSchema)]
pub struct WebhookReplay {
    /// Not before.
    #[schema(value_type = String, format = DateTime, required = false)]
    pub from: Option<Moment>,
    /// Not after.
    #[schema(value_type = String, format = DateTime, required = false)]
    pub to: Option<Moment>,
    /// Of which types besides what the subscription selects.
    #[schema(value_type = Option<Vec<EventType>>, nullable = false)]
    pub event_types: Option<Vec<EventTypeName>>,
    /// How many at most; where more match, none is delivered.
    #[schema(minimum = 1, maximum = 1_000, default = 100, required = false)]
    pub max_events: i64,
}

impl WebhookReplay {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Problems`], all of them.
    pub fn from_json(body: Json) -> Result<Self, Problems> {
        read_body(body, |body| {
            let from = body.optional("from", |value| value.moment());
            let to = body.optional("to", |value| value.moment());
            let event_types = body.optional("event_types", |value| {
                value.array(SELECTORS_MAX, EventTypeName::read)
            });
            let max_events = body.optional("max_events", |value| value.integer(1..=1_000));
            Some(Self {
                from,
                to,
                event_types,
                max_events: max_events.unwrap_or(100),
            })
        })
    }
}

fn status_schema() -> ObjectSchema {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(SettableStatus::WORDS.iter().copied()))
        .description(Some(
            "Whether it gets events. `ACTIVE` forgets the failures.",
        ))
        .build()
}
