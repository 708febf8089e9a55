//! The members of each kind, as the schemas of the API describe them, and values in the one form that is compared.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::kinds::{Kind, OWNED, TENANT, is_among};
use crate::domain::fields::Components;
use crate::domain::moment::Moment;
use crate::domain::money;
use crate::domain::period::Zone;
use crate::domain::printable::printable;

/// Lists without a stated default that are empty where they are absent.
const EMPTY: &str = "budget_templates event_categories limits scope_filter";

/// By kind, the schema of its objects, and that of the request that changes one.
pub(super) struct Forms(HashMap<&'static str, [Value; 2]>);

impl Forms {
    pub fn new() -> Self {
        let mut forms = Self(HashMap::new());
        for kind in OWNED.into_iter().chain([&TENANT]) {
            let [create, update] = [kind.create, kind.update].map(|it| it.operation().declaration);
            let object = inline(update.responses[0].and_then(|it| it.schema));
            let schema = inline(create.request.map(|it| it.schema));
            let schema = of_kind(kind, schema, &object["properties"]);
            let update = inline(update.request.map(|it| it.schema));
            forms.0.insert(kind.word, [schema, update]);
        }
        for kind in OWNED {
            let about = format!("The {} of it. Absent: left alone.", kind.list);
            let items = forms.schema(kind).clone();
            let list = json!({"type": "array", "items": items, "description": about});
            let tenant = forms.0.get_mut(TENANT.word).map(|form| &mut form[0]);
            tenant.expect("a kind")["properties"][kind.list] = list;
        }
        forms
    }

    /// The schema of a kind.
    pub fn schema(&self, kind: &Kind) -> &Value {
        &self.0[kind.word][0]
    }

    /// The members of a kind, but for the status.
    pub fn names(&self, kind: &Kind) -> impl Iterator<Item = &str> {
        let members = self.schema(kind)["properties"].as_object();
        let names = members.into_iter().flatten().map(|(name, _)| name.as_str());
        names.filter(|name| *name != "status")
    }

    /// Whether a member can be changed.
    pub fn can_change(&self, kind: &Kind, member: &str) -> bool {
        let known = &self.0[kind.word][1]["properties"];
        known.get(member).is_some()
    }

    /// An object in the form that is compared: amounts with their units, every default, and no member that a file cannot have,
    /// which is a problem.
    pub fn members(
        &self,
        kind: &Kind,
        object: &Value,
        place: &str,
        problems: &mut Vec<String>,
    ) -> Value {
        let mut object = object.clone();
        let allocated = object["allocated"].clone();
        let period = object.get_mut("period").and_then(Value::as_object_mut);
        if let Some(period) = period.filter(|period| period.get("allocated").is_none_or(is_nothing))
        {
            period.insert("allocated".to_owned(), allocated);
        }
        normal(&object, self.schema(kind), &Value::Null, place, problems)
    }
}

fn inline(schema: Option<fn(&mut Components) -> Value>) -> Value {
    schema.map(Components::inline).unwrap_or_default()
}

/// The schema of a kind, from that of the request that creates one. Defaults are also in that of the object.
fn of_kind(kind: &Kind, mut schema: Value, object: &Value) -> Value {
    let mut defaults = (kind.defaults)();
    if let Some(members) = schema["properties"].as_object_mut() {
        members.retain(|name, _| !is_among(kind.without, name));
        for (name, member) in members.iter_mut() {
            for default in [defaults[name].take(), object[name]["default"].clone()] {
                if member["default"].is_null() && !default.is_null() {
                    member["default"] = default;
                }
            }
            if is_among(kind.chosen, name) {
                member["default"].take();
            }
        }
    }
    if kind.off != "REVOKED" {
        let about = "Absent: stays as it is.";
        schema["properties"]["status"] =
            json!({"enum": ["ACTIVE", kind.off], "description": about});
    }
    if let Some(required) = schema["required"].as_array_mut() {
        required.retain(|name| {
            name.as_str()
                .is_none_or(|name| !is_among(kind.without, name))
        });
    }
    schema
}

pub(super) fn is_amount(schema: &Value) -> bool {
    let members = schema["properties"].as_object();
    members.is_some_and(|members| members.keys().eq(["amount", "unit"]))
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty)
}

/// What an absent member stands for.
fn default_of(name: &str, schema: &Value) -> Option<Value> {
    match &schema["default"] {
        Value::Null => (schema["type"] == "array" && is_among(EMPTY, name)).then(|| json!([])),
        default => Some(default.clone()),
    }
}

fn normal(
    value: &Value,
    schema: &Value,
    unit: &Value,
    place: &str,
    problems: &mut Vec<String>,
) -> Value {
    if is_amount(schema) {
        return amount(value, unit).unwrap_or_else(|why| {
            problems.push(format!("{place}: {why}"));
            json!({"unit": unit, "amount": 0})
        });
    }
    match (value, schema["properties"].as_object()) {
        (Value::Object(members), Some(known)) => {
            for name in members.keys().filter(|name| !known.contains_key(*name)) {
                let known: Vec<_> = known.keys().map(String::as_str).collect();
                let (name, known) = (printable(name), known.join(", "));
                problems.push(format!("{place}.{name}: unknown member; there are {known}"));
            }
            let unit = members.get("unit").unwrap_or(unit);
            let mut found = Map::new();
            for (name, schema) in known {
                let given = members.get(name).filter(|value| !is_nothing(value));
                let Some(value) = given.cloned().or_else(|| default_of(name, schema)) else {
                    continue;
                };
                let (value, place) = (canonical(name, value), format!("{place}.{name}"));
                found.insert(name.clone(), normal(&value, schema, unit, &place, problems));
            }
            found.into()
        }
        (Value::Array(items), _) => {
            let items = items.iter().enumerate().map(|(at, item)| {
                let place = format!("{place}[{at}]");
                normal(item, &schema["items"], unit, &place, problems)
            });
            let mut items: Vec<_> = items.collect();
            // A list of words is a set.
            if items.iter().all(Value::is_string) {
                items.sort_by_key(Value::to_string);
                items.dedup();
            }
            items.into()
        }
        (Value::Number(number), _) if schema["type"] == "number" => json!(number.as_f64()),
        (Value::String(text), _) if schema["format"] == "date-time" => {
            Moment::parse(text).map_or(json!(text), |moment| json!(moment))
        }
        _ => value.clone(),
    }
}

/// An amount: an integer, or money as people write it, in the unit of the object around it.
fn amount(value: &Value, unit: &Value) -> Result<Value, String> {
    let read = match value {
        Value::String(text) => money::read(text)?,
        _ => value.clone(),
    };
    match read["unit"].as_str() {
        Some(named) if unit.is_string() && named != unit => {
            Err(format!("is in {named}, but `unit` is {}", plain(unit)))
        }
        None if !read.is_object() => Ok(json!({"unit": unit, "amount": read})),
        _ => Ok(read),
    }
}

/// A value as the service returns it.
fn canonical(name: &str, value: Value) -> Value {
    match value {
        Value::String(text) if name.starts_with("scope") => text.to_ascii_lowercase().into(),
        Value::String(text) if name == "time_zone" => Zone::parse(&text)
            .map_or(text, |zone| zone.name().to_owned())
            .into(),
        Value::Array(items) => items
            .into_iter()
            .map(|item| canonical(name, item))
            .collect(),
        value => value,
    }
}

/// A compared form as a file has it: amounts as integers, without defaults.
pub(super) fn short(value: &Value, schema: &Value, unit: &Value) -> Value {
    if is_amount(schema) && value["unit"] == *unit {
        return value["amount"].clone();
    }
    match value {
        Value::Object(members) => {
            let unit = members.get("unit").unwrap_or(unit);
            let mut found = Map::new();
            for (name, value) in members {
                let schema = &schema["properties"][name];
                let value = short(value, schema, unit);
                if !is_nothing(&value) && default_of(name, schema).as_ref() != Some(&value) {
                    found.insert(name.clone(), value);
                }
            }
            found.into()
        }
        Value::Array(items) => items
            .iter()
            .map(|item| short(item, &schema["items"], unit))
            .collect(),
        _ => value.clone(),
    }
}

/// A value for people: text without quotes, an amount without its unit, other objects and lists as JSON.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Object(members) if members.keys().eq(["amount", "unit"]) => {
            value["amount"].to_string()
        }
        _ => value.to_string(),
    }
}
