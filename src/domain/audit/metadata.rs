//! Metadata of audit entries.
//!
//! A field `metadata.<name>` is a member, see [`log_fields`]; `metadata.<object>.<name>` is a member of an object. A field
//! `metadata_json.<name>` holds JSON. An empty text says that a request removed the member's value.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::domain::fields::plain_field;
use crate::domain::json::{FreeObject, Json};
use crate::domain::log_fields;
use crate::domain::record::{Record, RecordError, Recorded};

/// The members, by name.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Metadata(BTreeMap<String, Json>);

impl Metadata {
    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn put(&mut self, name: &str, value: Json) {
        self.0.insert(name.to_owned(), value);
    }

    /// Reads those among an entry's fields. Unreadable values become texts.
    fn of_entry(entry: &Record) -> Self {
        let mut metadata = Self::default();
        let mut objects: BTreeMap<&str, BTreeMap<String, Json>> = BTreeMap::new();
        for (field, text) in entry.pairs() {
            let typed = |name| match text {
                "" => Json::Null,
                text => log_fields::json_of(name, text).unwrap_or_else(|| text.into()),
            };
            if let Some(name) = field.strip_prefix("metadata_json.") {
                let json = Json::parse(text.as_bytes());
                metadata.put(name, json.unwrap_or_else(|_| text.into()));
            } else if let Some(name) = field.strip_prefix("metadata.") {
                match name.split_once('.') {
                    None => metadata.put(name, typed(name)),
                    Some((object, name)) => {
                        let members = objects.entry(object).or_default();
                        members.insert(name.to_owned(), typed(name));
                    }
                }
            }
        }
        for (name, members) in objects {
            metadata.put(name, Json::from_iter(members));
        }
        let operation = entry.get("operation").unwrap_or_default();
        if operation == "tenant_close_cascade" {
            metadata.put("cascade_reason", "tenant_closed".into());
        }
        // A refusal's operation is its method and path.
        if let (Some(_), Some((method, path))) =
            (entry.get("error_code"), operation.split_once(':'))
        {
            metadata.put("method", method.into());
            metadata.put("path", path.into());
        }
        metadata
    }
}

plain_field!(Metadata as FreeObject);

impl Recorded for Metadata {
    fn read_from(entry: &Record, _: &str) -> Result<Option<Self>, RecordError> {
        Ok(Some(Self::of_entry(entry)))
    }
}
