//! Forms and queries: names and values.

use std::convert::Infallible;
use std::ops::Index;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde_json::Value;
use url::form_urlencoded::{Serializer, parse};

use crate::domain::amount::Unit;
use crate::domain::money;

/// Names and values as a query; empty values are left out.
pub(super) fn query_of(pairs: &[(&str, &str)]) -> String {
    let present = pairs.iter().filter(|(_, value)| !value.is_empty());
    Serializer::new(String::new())
        .extend_pairs(present)
        .finish()
}

/// The fields of a form or a query; an absent one is empty.
pub(super) struct Form(Vec<(String, String)>);

impl<S: Sync> FromRequestParts<S> for Form {
    type Rejection = Infallible;

    /// The query of a page.
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let query = parts.uri.query().unwrap_or_default();
        Ok(Self::parse(query.as_bytes()))
    }
}

impl Form {
    pub fn parse(text: &[u8]) -> Self {
        Self(parse(text).into_owned().collect())
    }

    /// The amount in a field as people write it, in `unit`: `5usd`, `$5.00`, `1.5k`, `12,000 tokens`; `None` while the field is empty.
    ///
    /// # Errors
    /// What would be right. Money needs its unit, because 5 could be dollars or microcents.
    pub fn amount(&self, name: &str, unit: &str) -> Result<Option<i64>, String> {
        let Some(text) = ungrouped(self[name].trim()) else {
            return Err(format!(
                "{name} must have commas between thousands alone, and a point before fractions"
            ));
        };
        let text = match text.strip_prefix('$') {
            Some(dollars) => format!("{dollars}usd"),
            None => text.replace("risk point", "risk_point"),
        };
        if text.is_empty() {
            return Ok(None);
        }
        let read = money::read(&text).map_err(|problem| format!("{name} {problem}"))?;
        let is_money = unit == Unit::UsdMicrocents.as_str();
        match (read["unit"].as_str(), read.as_i64()) {
            (None, Some(_)) if is_money => {
                Err(format!("{name} must have its unit, such as 5usd or $5"))
            }
            (None, amount) => Ok(amount),
            (Some(other), _) if other != unit => Err(format!("{name} must be in {unit}")),
            (Some(_), _) => Ok(read["amount"].as_i64()),
        }
    }

    /// Whether its reader has sent it, or a link has filled it in, and no link leads back to its fields.
    pub fn is_filled(&self) -> bool {
        let has = |name| !self[name].is_empty();
        (has("amount") || has("sent")) && !has("edit")
    }

    /// All values of a field that may occur many times.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let fields = self.0.iter().filter(move |(known, _)| known == name);
        fields.map(|(_, value)| value.as_str())
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

/// A number without the commas between its thousands; `None` where they separate something else.
fn ungrouped(text: &str) -> Option<String> {
    let mut groups = text.split(',');
    let first = groups.next().unwrap_or_default();
    for group in groups {
        let digits = group.chars().take_while(char::is_ascii_digit).count();
        if digits != 3 || first.contains('.') {
            return None;
        }
    }
    Some(text.replace(',', ""))
}

impl Index<&str> for Form {
    type Output = str;

    fn index(&self, name: &str) -> &str {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_as_the_pages_write_them() {
        let amount = |text: &str, unit: &str| {
            Form(vec![("amount".into(), text.into())]).amount("amount", unit)
        };
        for (text, unit, expected) in [
            ("", "TOKENS", None),
            ("1,500 tokens", "TOKENS", Some(1_500)),
            (" 1.5k ", "TOKENS", Some(1_500)),
            ("3 risk points", "RISK_POINTS", Some(3)),
            ("$5.12345678", "USD_MICROCENTS", Some(512_345_678)),
            ("5usd", "USD_MICROCENTS", Some(500_000_000)),
            ("7 USD_MICROCENTS", "USD_MICROCENTS", Some(7)),
        ] {
            assert_eq!(amount(text, unit), Ok(expected), "{text}");
        }
        for (text, unit, problem) in [
            (
                "5",
                "USD_MICROCENTS",
                "amount must have its unit, such as 5usd or $5",
            ),
            ("5usd", "TOKENS", "amount must be in TOKENS"),
            ("1,50usd", "USD_MICROCENTS", "amount must have commas"),
            ("1,5k", "TOKENS", "amount must have commas"),
            ("1.5,000", "TOKENS", "amount must have commas"),
            ("many", "TOKENS", "amount must be an amount such as"),
        ] {
            let refused = amount(text, unit).expect_err(text);
            assert!(refused.starts_with(problem), "{refused}");
        }
    }
}
