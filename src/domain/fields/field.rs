//! The types that members can have, and how each is read and described.

use std::collections::BTreeMap;

use secrecy::SecretString;
use serde_json::{Value as Schema, json};
use smol_str::SmolStr;

use super::rules::{Blank, Entries, Items, Range, Text};
use super::schema::Components;
use super::{Problems, Value};
use crate::domain::json::{FreeObject, Json, Place};
use crate::domain::moment::Moment;
use crate::domain::record::{FieldChange, Written, stored_text};

/// A type that members of requests, responses and records can have.
pub trait Field: Sized {
    /// Constraints of a value besides its type.
    type Rules: Default;
    /// The type of a default: what an `Option` or [`Patch`] holds, else the type itself.
    type Inner;

    /// The schema, or a reference to it. The named schemas that it refers to are added to `components`.
    fn schema(rules: &Self::Rules, components: &mut Components) -> Schema;

    /// The value of an absent member; `None` if it is required.
    fn absent(default: Option<Self::Inner>) -> Option<Self>;

    /// The value of a member that was sent as `null`.
    fn null(default: Option<Self::Inner>) -> Option<Self> {
        Self::absent(default)
    }

    /// Whether a response leaves the value out.
    fn is_absent(&self) -> bool {
        false
    }
}

/// A [`Field`] that requests have.
pub trait Read: Field {
    /// Reads the value; what is wrong with it is noted.
    fn read(value: Value<'_>, rules: &Self::Rules) -> Option<Self>;

    /// Whether the value is as good as `null`.
    fn is_null(json: &Json, _rules: &Self::Rules) -> bool {
        *json == Json::Null
    }

    /// The stored form: compact JSON.
    fn to_json(&self) -> String
    where
        Self: serde::Serialize,
    {
        serde_json::to_string(self).expect("numbers, texts and maps with text keys serialize")
    }

    /// Reads a request from its text.
    fn parse_json(text: &str) -> Option<Self> {
        Self::from_json(Json::parse(text.as_bytes()).ok()?).ok()
    }

    /// Reads the stored form, whatever the bounds of requests are by now.
    fn parse_stored(text: &str) -> Option<Self> {
        let json = Json::parse(text.as_bytes()).ok()?;
        Self::read_whole(json, Place::BODY, Problems::of_record()).ok()
    }

    /// Reads a whole request body.
    ///
    /// # Errors
    /// [`Problems`], all of them.
    fn from_json(body: Json) -> Result<Self, Problems> {
        Self::read_whole(body, Place::BODY, Problems::default())
    }

    /// Reads a whole value, which problems name as this place; what is wrong with it is added to `problems`.
    ///
    /// # Errors
    /// [`Problems`], all of them.
    fn read_whole(body: Json, place: Place<'_>, mut problems: Problems) -> Result<Self, Problems> {
        let value = Value::new(body, place, &mut problems);
        match Self::read(value, &Self::Rules::default()) {
            Some(request) if problems.is_empty() => Ok(request),
            _ => Err(problems),
        }
    }
}

/// Declares a type that is neither optional nor made of others: its rules, its schema under them, and how a request's value
/// is read, if requests have it. `plain_field!(Type as Other)` describes it as another type.
macro_rules! plain_field {
    ($type:ty as $other:ty $(, $read:expr)?) => {
        $crate::domain::fields::plain_field!(
            $type,
            (),
            |(), components| <$other as $crate::domain::fields::Field>::schema(&Default::default(), components)
            $(, $read)?
        );
    };
    ($type:ty, $rules:ty, $schema:expr $(, $read:expr)?) => {
        impl $crate::domain::fields::Field for $type {
            type Rules = $rules;
            type Inner = Self;

            fn schema(
                rules: &$rules,
                components: &mut $crate::domain::fields::Components,
            ) -> $crate::domain::fields::Schema {
                let schema: fn(&$rules, &mut $crate::domain::fields::Components) -> $crate::domain::fields::Schema =
                    $schema;
                schema(rules, components)
            }

            fn absent(default: Option<Self>) -> Option<Self> {
                default
            }
        }

        $(impl $crate::domain::fields::Read for $type {
            fn read(value: $crate::domain::fields::Value<'_>, rules: &$rules) -> Option<Self> {
                let read: fn($crate::domain::fields::Value<'_>, &$rules) -> Option<Self> = $read;
                read(value, rules)
            }
        })?
    };
}
pub(crate) use plain_field;

/// Declares a type whose values are texts, on the wire and in records: how it is read back.
macro_rules! text_field {
    ($type:ty, $parse:expr) => {
        $crate::domain::fields::plain_field!($type, $crate::domain::fields::Text, |text, _| text
            .schema());
        $crate::domain::record::stored_text!($type, $parse);
    };
}
pub(crate) use text_field;

plain_field!(String, Text, |text, _| text.schema());
plain_field!(SmolStr, Text, |text, _| text.schema());
plain_field!(SecretString, Text, |text, _| text.schema());
plain_field!(bool, (), |(), _| json!({"type": "boolean"}), |value, ()| {
    match value.json {
        Json::Bool(flag) => Some(flag),
        _ => value.wrong_type("true or false"),
    }
});
plain_field!(
    i64,
    Range<i64>,
    |range, _| number("integer", "int64", range),
    |value, range| value.integer(range.enforced())
);
plain_field!(
    f64,
    Range<f64>,
    |range, _| number("number", "double", range),
    |value, range| value.number(range.enforced())
);
plain_field!(
    Moment,
    (),
    |(), _| json!({"type": "string", "format": "date-time"}),
    |value, ()| {
        let wanted = || "a date and time such as 2026-07-04T12:00:00Z".to_owned();
        value.parsed(Moment::parse, wanted)
    }
);
plain_field!(Json, (), |(), _| json!({"type": "object"}));
plain_field!(FreeObject as Json, |value, ()| match value.json {
    Json::Object(_) => FreeObject::from_stored(value.json.compact()),
    _ => value.wrong_type("an object"),
});
plain_field!(Schema as Json);

fn number<N>(kind: &str, format: &str, range: &Range<N>) -> Schema
where
    N: Copy + PartialOrd + std::fmt::Display + serde::Serialize,
{
    let mut schema = json!({"type": kind, "format": format});
    range.published.describe(&mut schema, "minimum", "maximum");
    schema
}

impl Read for SmolStr {
    fn read(value: Value<'_>, rules: &Text) -> Option<Self> {
        value.text(rules)
    }

    fn is_null(json: &Json, rules: &Text) -> bool {
        let blank = |text: &str| rules.blank == Blank::Null && text.trim().is_empty();
        matches!(json, Json::Null) || matches!(json, Json::String(text) if blank(text))
    }
}

impl Read for String {
    fn read(value: Value<'_>, rules: &Text) -> Option<Self> {
        value.text(rules).map(Self::from)
    }

    fn is_null(json: &Json, rules: &Text) -> bool {
        SmolStr::is_null(json, rules)
    }
}

impl Read for SecretString {
    fn read(value: Value<'_>, rules: &Text) -> Option<Self> {
        value.text(rules).map(|text| Self::from(text.as_str()))
    }

    fn is_null(json: &Json, rules: &Text) -> bool {
        String::is_null(json, rules)
    }
}

/// Secrets are sealed, and written apart.
impl Written for SecretString {
    fn write_to(&self, _: FieldChange, _: &mut Vec<FieldChange>) {}
}

impl Written for BTreeMap<String, SecretString> {
    fn write_to(&self, _: FieldChange, _: &mut Vec<FieldChange>) {}
}

impl<T: Field> Field for Option<T> {
    type Rules = T::Rules;
    type Inner = T::Inner;

    fn schema(rules: &T::Rules, components: &mut Components) -> Schema {
        T::schema(rules, components)
    }

    fn absent(_: Option<T::Inner>) -> Option<Self> {
        Some(None)
    }

    fn is_absent(&self) -> bool {
        self.as_ref().is_none_or(T::is_absent)
    }
}

impl<T: Read> Read for Option<T> {
    fn read(value: Value<'_>, rules: &T::Rules) -> Option<Self> {
        T::read(value, rules).map(Some)
    }

    fn is_null(json: &Json, rules: &T::Rules) -> bool {
        T::is_null(json, rules)
    }
}

impl<T: Field> Field for Vec<T> {
    type Rules = Items<T::Rules>;
    type Inner = Self;

    fn schema(rules: &Self::Rules, components: &mut Components) -> Schema {
        let mut schema = json!({"type": "array", "items": T::schema(&rules.each, components)});
        rules.items.describe(&mut schema, "minItems", "maxItems");
        schema
    }

    fn absent(default: Option<Self>) -> Option<Self> {
        default
    }
}

impl<T: Read + PartialEq> Read for Vec<T> {
    fn read(value: Value<'_>, rules: &Self::Rules) -> Option<Self> {
        value.array(rules)
    }
}

impl<K: Ord, T: Field> Field for BTreeMap<K, T> {
    type Rules = Entries<T::Rules>;
    type Inner = Self;

    fn schema(rules: &Self::Rules, components: &mut Components) -> Schema {
        let value = T::schema(&rules.each, components);
        let mut schema = json!({"type": "object", "additionalProperties": value});
        // The published description says so of maps without a bound.
        if rules.entries.max.is_none() {
            schema["propertyNames"] = json!({"type": "string"});
        }
        rules
            .entries
            .describe(&mut schema, "minProperties", "maxProperties");
        schema
    }

    fn absent(default: Option<Self>) -> Option<Self> {
        default
    }
}

stored_text!(
    BTreeMap<String, String>,
    |text| serde_json::from_str(text).ok(),
    |map| serde_json::to_string(map).ok()
);

impl<T: Read> Read for BTreeMap<String, T> {
    fn read(value: Value<'_>, rules: &Self::Rules) -> Option<Self> {
        value.map(rules)
    }
}
