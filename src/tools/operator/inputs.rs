//! The inputs of an operation: its parameters and the members of its body, as their declarations describe them.

use std::collections::BTreeMap;

use jiff::civil::Date;
use jiff::{Span, SpanRelativeTo, Timestamp};
use serde_json::{Value, json};

use crate::api::operation::parameters::parameters;
use crate::api::operations::OperationId;
use crate::domain::fields::Components;

/// Members whose flag has another name.
const NAMES: &str = "tenant_id=tenant parent_tenant_id=parent commit_overage_policy=overage-policy \
    default_commit_overage_policy=overage-policy default_reservation_ttl_ms=default-ttl-ms \
    max_reservation_ttl_ms=max-ttl-ms max_reservation_extensions=max-extensions event_type=type event_types=type \
    event_categories=category scope_filter=scope permissions=permission expires_at=expires from=since to=until \
    url=receiver headers=header budget_utilization=utilization signing_secret=secret-file key_secret=secret-file \
    expected_count=expect blocked_cidr_ranges=block allowed_url_patterns=url-pattern time_zone=zone limits=limit group_by=by \
    budget_templates=template X-Idempotency-Key=idempotency-key";

/// Name of the input that gives the unit of amounts.
pub(super) const UNIT: &str = "unit";

/// The unit where neither `--unit` nor `BUDGET_UNIT` names one.
const DEFAULT_UNIT: &str = "USD_MICROCENTS";

/// Where the value of an input goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Path,
    Query,
    /// The header of the idempotency key, and the body if it has such a member.
    Header,
    Body,
    /// Into each amount.
    Unit,
}

/// The form of a value on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    /// The name of a file that holds the text, which no list of processes shows.
    Secret,
    Integer,
    Number,
    /// No value: the flag means `true`.
    Switch,
    Time,
    Day,
    /// An integer, whose unit is another input.
    Amount,
    /// The limit of a window: its length, perhaps `@` and a time zone, `=` and the amount.
    Limit,
    /// Members of an object, each `NAME=VALUE`.
    Map,
    /// An object as JSON.
    Object,
}

/// An input.
#[derive(Debug)]
pub(super) struct Input {
    /// Name of the flag or argument.
    pub name: String,
    /// Name of the parameter or member, after that of the object that holds it.
    pub path: Vec<String>,
    pub place: Place,
    pub kind: Kind,
    /// Whether it has any number of such values.
    pub is_list: bool,
    /// Its description, as in the API.
    pub about: String,
    pub required: bool,
    /// The allowed words, if there are some.
    pub words: Vec<String>,
    pub default: Option<String>,
    /// The value that it always has.
    pub fixed: Option<String>,
    pub positional: bool,
}

impl Input {
    /// Name of the parameter or member.
    pub fn member(&self) -> &str {
        self.path.last().map_or("", String::as_str)
    }
}

/// The inputs of an operation.
pub(super) fn inputs(operation: OperationId) -> Vec<Input> {
    let operation = operation.operation();
    let mut components = Components::default();
    let request = operation.declaration.request;
    let body = request.map(|request| (request.schema)(&mut components));
    let (schemas, found) = (components.into_schemas(), Vec::new());
    let mut inputs = Inputs { schemas, found };
    for parameter in parameters(operation) {
        let place = match parameter["in"].as_str() {
            Some("path") => Place::Path,
            Some("query") => Place::Query,
            _ => Place::Header,
        };
        inputs.add(place, &[text(&parameter["name"])], &parameter);
    }
    let extra =
        |about| json!({"schema": {"type": "string"}, "required": true, "description": about});
    if operation.path.ends_with("{key_set_file}") {
        let file = extra("Name of the file, which follows from the dialect");
        inputs.add(Place::Path, &["file".to_owned()], &file);
    }
    if let Some(body) = body {
        inputs.add_members(&[], &body, true);
    }
    let mut found = inputs.found.iter();
    let has_amounts = found.any(|input| input.kind == Kind::Amount);
    if has_amounts {
        inputs.add(
            Place::Unit,
            &[UNIT.to_owned()],
            &extra("Unit of the amounts that name none"),
        );
    }
    let mut found = inputs.found.iter_mut();
    if let Some(unit) = found.find(|input| input.name == UNIT && (input.required || has_amounts)) {
        unit.default = Some(DEFAULT_UNIT.to_owned());
    }
    inputs.found
}

struct Inputs {
    schemas: BTreeMap<String, Value>,
    found: Vec<Input>,
}

impl Inputs {
    /// Adds the members of an object, and those of the objects in it.
    fn add_members(&mut self, path: &[String], object: &Value, is_required: bool) {
        let schema = self.target(object);
        let members = schema["properties"].as_object();
        for (name, member) in members.into_iter().flatten() {
            let mut required = schema["required"].as_array().into_iter().flatten();
            let required = is_required && required.any(|known| known == name);
            let path = [path, std::slice::from_ref(name)].concat();
            let about = &member["description"];
            let parameter = json!({"schema": member, "required": required, "description": about});
            let kind = self.add(Place::Body, &path, &parameter);
            if kind == Some(Kind::Object) && path.len() == 1 {
                self.add_members(&path, member, required);
            }
        }
    }

    /// Adds an input, unless it has no effect or another has its name.
    fn add(&mut self, place: Place, path: &[String], parameter: &Value) -> Option<Kind> {
        let member = path.last()?;
        let names = NAMES.split_whitespace();
        let mut names = names.filter_map(|pair| pair.split_once('='));
        let renamed = names.find(|(known, _)| known == member);
        let name = renamed.map_or_else(|| member.replace('_', "-"), |(_, name)| name.to_owned());
        if let Some(known) = self.found.iter_mut().find(|known| known.name == name) {
            // The body has the idempotency key of the header.
            if known.place == Place::Header {
                known.path = path.to_vec();
            }
            return None;
        }
        let mut schema = self.target(&parameter["schema"]);
        let mut about = text(&parameter["description"]).replace('\n', " ");
        if about.starts_with("Without effect") || about.starts_with("Must be absent") {
            return None;
        }
        about.truncate(about.trim_end_matches('.').len());
        if !schema["default"].is_null() {
            about += &format!("; {} by default", text(&schema["default"]));
        }
        let is_list = schema["type"] == "array";
        if is_list {
            schema = self.target(&schema["items"]);
        }
        let kind = match schema["type"].as_str() {
            _ if name == "secret-file" => Kind::Secret,
            Some("integer") => Kind::Integer,
            Some("number") => Kind::Number,
            Some("boolean") => Kind::Switch,
            _ if member == "limits" => Kind::Limit,
            Some("object") if schema["properties"]["amount"].is_object() => Kind::Amount,
            Some("object") if schema["additionalProperties"].is_object() => Kind::Map,
            Some("object") => Kind::Object,
            _ if schema["format"] == "date-time" => Kind::Time,
            _ if schema["format"] == "date" => Kind::Day,
            _ => Kind::Text,
        };
        let words = schema["enum"].as_array().into_iter();
        self.found.push(Input {
            name,
            path: path.to_vec(),
            place,
            kind,
            is_list,
            about,
            // The members of an object are inputs of their own.
            required: parameter["required"] == true && kind != Kind::Object,
            words: words.flatten().map(text).collect(),
            default: None,
            fixed: None,
            positional: place == Place::Path,
        });
        Some(kind)
    }

    /// The schema itself, or the one that it refers to.
    fn target(&self, schema: &Value) -> Value {
        let name = schema["$ref"]
            .as_str()
            .and_then(|path| path.rsplit('/').next());
        let target = name.and_then(|name| self.schemas.get(name));
        target.unwrap_or(schema).clone()
    }
}

/// The text of a value, without quotes.
pub(super) fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Reads `2026-01-31T12:00:00Z`, or `15m`, `2h`, `7d` ago, and returns the time as the wire has it.
pub(super) fn past(text: &str) -> Result<Value, String> {
    moment(text, -1).map(|moment| moment.to_string().into())
}

/// Reads a time, or `15m`, `2h`, `7d` from now, and returns the time as the wire has it.
pub(super) fn future(text: &str) -> Result<Value, String> {
    moment(text, 1).map(|moment| moment.to_string().into())
}

/// Reads `2026-01-31`, or a time as [`past`] does, and returns its day in UTC.
pub(super) fn day(text: &str) -> Result<Value, String> {
    if let Ok(moment) = moment(text, -1) {
        return Ok(moment.to_string()[..10].into());
    }
    let day = text.parse::<Date>().map(|day| day.to_string().into());
    day.map_err(|_| {
        format!("`{text}` is neither a day such as 2026-01-31 nor a time such as 24h or 30d")
    })
}

fn moment(text: &str, direction: i32) -> Result<Timestamp, String> {
    if let Ok(moment) = text.parse() {
        return Ok(moment);
    }
    let moment = text.parse().and_then(|distance: Span| {
        let from_now = distance.to_duration(SpanRelativeTo::days_are_24_hours())?;
        let moment = Timestamp::now().checked_add(from_now * direction)?;
        Ok((moment, distance.is_negative()))
    });
    match moment {
        Ok((moment, false)) => Ok(moment),
        _ => Err(format!(
            "`{text}` is neither a time such as 2026-01-31T12:00:00Z nor one such as 15m, 2h or 7d"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_absolute_or_relative() {
        let noon = "2026-01-31T12:00:00Z";
        assert_eq!(past(noon), Ok(noon.into()));
        let hour = Timestamp::now().as_second() - moment("1h", -1).expect("an hour").as_second();
        assert!((3_600..3_605).contains(&hour), "{hour}");
        assert!(moment("90d", 1).expect("a quarter") > Timestamp::now());
        for wrong in ["", "h", "1y", "-1h", "yesterday", "9999999999d", "1é"] {
            assert!(past(wrong).is_err(), "{wrong}");
            assert!(day(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_day_is_named_or_that_of_a_time_in_utc() {
        for text in [
            "2026-01-31",
            "2026-01-31T12:00:00Z",
            "2026-02-01T00:30:00+01:00",
        ] {
            assert_eq!(day(text), Ok("2026-01-31".into()), "{text}");
        }
        let today = Timestamp::now().to_string();
        assert!(day("24h").expect("a day").as_str() < Some(&today[..10]));
    }
}
