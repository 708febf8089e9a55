//! Forms and queries: names and values.

use std::ops::Index;

use serde_json::Value;
use url::form_urlencoded::{Serializer, parse};

/// Names and values as a query; empty values are left out.
pub(super) fn query_of(pairs: &[(&str, &str)]) -> String {
    let present = pairs.iter().filter(|(_, value)| !value.is_empty());
    Serializer::new(String::new())
        .extend_pairs(present)
        .finish()
}

/// The fields of a form or a query; an absent one is empty.
pub(super) struct Form(Vec<(String, String)>);

impl Form {
    pub fn parse(text: &[u8]) -> Self {
        Self(parse(text).into_owned().collect())
    }

    /// The amount that was written, thousands apart or not.
    pub fn amount(&self) -> Option<i64> {
        self["amount"].replace(',', "").parse().ok()
    }

    /// The idempotency key of the form, or a new one: sent twice, or from two windows, it has one effect.
    pub fn key(&self) -> String {
        match &self["key"] {
            "" => uuid::Uuid::new_v4().to_string(),
            key => key.to_owned(),
        }
    }

    /// The fields as an object, for a template that fills a form in again.
    pub fn json(&self) -> Value {
        let fields = self
            .0
            .iter()
            .map(|(name, value)| (name.clone(), value.as_str().into()));
        Value::Object(fields.collect())
    }
}

impl Index<&str> for Form {
    type Output = str;

    fn index(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }
}
