//! What an operation adds to its audit entry.
//!
//! A field `metadata.<name>` holds a text, or what the table here says of the name: an integer, a flag (`1`, `true`), a
//! list with blanks between. `metadata.<object>.<name>` is a member of an object. A field `metadata_json.<name>` holds JSON,
//! which is shown as it is.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::domain::fields::plain_field;
use crate::domain::record::{Record, RecordError, Recorded};

const INTEGERS: &[&str] = &[
    "allocated",
    "allowed_url_pattern_count",
    "amount",
    "api_keys_revoked",
    "blocked_cidr_count",
    "budgets_closed",
    "count",
    "default_reservation_ttl_ms",
    "duration_ms",
    "events_queued",
    "failed",
    "failures_count",
    "max_reservation_extensions",
    "max_reservation_ttl_ms",
    "new_spent",
    "overdraft_limit",
    "previous_spent",
    "priority",
    "released_amount",
    "released_reserved_amount",
    "reservations_released",
    "response_status",
    "response_time_ms",
    "skipped",
    "succeeded",
    "total_matched",
    "webhooks_disabled",
];
const FLAGS: &[&str] = &[
    "allow_http",
    "caps_updated",
    "in_progress",
    "spent_override_provided",
    "success",
];
const LISTS: &[&str] = &[
    "event_types",
    "failed_resources",
    "permissions",
    "scope_filter",
];

/// The members, by name.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Metadata(BTreeMap<String, Value>);

/// The value of a member.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
enum Value {
    /// A text.
    Text(String),
    /// An integer.
    Integer(i64),
    /// A flag.
    Flag(bool),
    /// A list of texts.
    Texts(Vec<String>),
    /// An object.
    Object(Metadata),
    /// Anything, as it was stored.
    Json(Box<RawValue>),
}

impl Metadata {
    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn put(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

    /// Reads those among an entry's fields.
    fn of_entry(entry: &Record) -> Self {
        let mut metadata = Self::default();
        for (name, value) in entry.pairs() {
            if let Some(name) = name.strip_prefix("metadata_json.") {
                let json = RawValue::from_string(value.to_owned());
                metadata.put(name, json.map_or_else(|_| text(value), Value::Json));
            } else if let Some(name) = name.strip_prefix("metadata.") {
                match name.split_once('.') {
                    None => metadata.put(name, typed(name, value)),
                    Some((object, name)) => metadata.member(object, name, typed(name, value)),
                }
            }
        }
        let operation = entry.get("operation").unwrap_or_default();
        if operation == "tenant_close_cascade" {
            metadata.put("cascade_reason", text("tenant_closed"));
        }
        // A refusal's operation is its method and path.
        if let (Some(_), Some((method, path))) =
            (entry.get("error_code"), operation.split_once(':'))
        {
            metadata.put("method", text(method));
            metadata.put("path", text(path));
        }
        metadata
    }

    fn member(&mut self, object: &str, name: &str, value: Value) {
        let members = self
            .0
            .entry(object.to_owned())
            .or_insert_with(|| Value::Object(Self::default()));
        if let Value::Object(members) = members {
            members.put(name, value);
        }
    }
}

plain_field!(Metadata, (), |()| json!({"type": "object"}));

impl Recorded for Metadata {
    fn read_from(entry: &Record, _: &str) -> Result<Option<Self>, RecordError> {
        Ok(Some(Self::of_entry(entry)))
    }
}

fn typed(name: &str, value: &str) -> Value {
    if INTEGERS.contains(&name) {
        return value.parse().map_or_else(|_| text(value), Value::Integer);
    }
    if FLAGS.contains(&name) {
        return Value::Flag(["1", "true"].contains(&value));
    }
    if LISTS.contains(&name) {
        let words = value.split_whitespace().map(str::to_owned);
        return Value::Texts(words.collect());
    }
    text(value)
}

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}
