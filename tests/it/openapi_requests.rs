//! What the description says about requests is what is enforced: every bound, word and type of every member.

use budget_authority::api::admin::api_keys::ApiKeyCreateRequest;
use budget_authority::api::admin::api_keys::update::ApiKeyUpdateRequest;
use budget_authority::api::admin::auth::validate::ApiKeyValidationRequest;
use budget_authority::api::admin::budget_states::{
    BudgetStatusTransitionRequest, BudgetUpdateRequest,
};
use budget_authority::api::admin::budgets::{BudgetCreateRequest, BudgetFundingRequest};
use budget_authority::api::admin::policies::{PolicyCreateRequest, PolicyUpdateRequest};
use budget_authority::api::admin::tenant_update::TenantUpdateRequest;
use budget_authority::api::admin::tenants::TenantCreateRequest;
use budget_authority::api::admin::webhook_requests::{WebhookCreateRequest, WebhookUpdateRequest};
use budget_authority::api::dialect::Dialect;
use budget_authority::api::openapi::document;
use budget_authority::api::runtime::commit::CommitRequest;
use budget_authority::api::runtime::decide::DecisionRequest;
use budget_authority::api::runtime::events::EventCreateRequest;
use budget_authority::api::runtime::extend::ReservationExtendRequest;
use budget_authority::api::runtime::release::ReleaseRequest;
use budget_authority::api::runtime::reserve::ReservationCreateRequest;
use budget_authority::domain::fields::Problems;
use budget_authority::domain::json::Json;
use serde_json::{Map, Value, json};

type Read = fn(Json) -> Result<(), Problems>;

/// Every request with a body, by the name of its schema.
const REQUESTS: [(&str, Read); 19] = [
    ("TenantUpdateRequest", |body| {
        TenantUpdateRequest::from_json(body).map(drop)
    }),
    ("BudgetUpdateRequest", |body| {
        BudgetUpdateRequest::from_json(body).map(drop)
    }),
    ("BudgetStatusTransitionRequest", |body| {
        BudgetStatusTransitionRequest::from_json(body).map(drop)
    }),
    ("DecisionRequest", |body| {
        DecisionRequest::from_json(body).map(drop)
    }),
    ("ReservationCreateRequest", |body| {
        ReservationCreateRequest::from_json(body).map(drop)
    }),
    ("CommitRequest", |body| {
        CommitRequest::from_json(body).map(drop)
    }),
    ("ReleaseRequest", |body| {
        ReleaseRequest::from_json(body).map(drop)
    }),
    ("ReservationExtendRequest", |body| {
        ReservationExtendRequest::from_json(body).map(drop)
    }),
    ("EventCreateRequest", |body| {
        EventCreateRequest::from_json(body).map(drop)
    }),
    ("TenantCreateRequest", |body| {
        TenantCreateRequest::from_json(body).map(drop)
    }),
    ("ApiKeyCreateRequest", |body| {
        ApiKeyCreateRequest::from_json(body).map(drop)
    }),
    ("ApiKeyUpdateRequest", |body| {
        ApiKeyUpdateRequest::from_json(body).map(drop)
    }),
    ("ApiKeyValidationRequest", |body| {
        ApiKeyValidationRequest::from_json(body).map(drop)
    }),
    ("BudgetCreateRequest", |body| {
        BudgetCreateRequest::from_json(body).map(drop)
    }),
    ("BudgetFundingRequest", |body| {
        BudgetFundingRequest::from_json(body).map(drop)
    }),
    ("PolicyCreateRequest", |body| {
        PolicyCreateRequest::from_json(body).map(drop)
    }),
    ("PolicyUpdateRequest", |body| {
        PolicyUpdateRequest::from_json(body).map(drop)
    }),
    ("WebhookCreateRequest", |body| {
        WebhookCreateRequest::from_json(body).map(drop)
    }),
    ("WebhookUpdateRequest", |body| {
        WebhookUpdateRequest::from_json(body).map(drop)
    }),
];

#[test]
fn every_described_request_is_among_them() {
    let document = document(Dialect::Service);
    let described = |name: &&String| name.ends_with("Request");
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let mut described: Vec<&String> = schemas.keys().filter(described).collect();
    let mut listed = REQUESTS.map(|(name, _)| name);
    described.sort();
    listed.sort();
    assert_eq!(described, listed);
}

#[test]
fn what_is_described_is_enforced_naming_the_member() {
    let document = document(Dialect::Service);
    for (name, read) in REQUESTS {
        let schema = &document["components"]["schemas"][name];
        let mut good = sample(&document, schema);
        if let Some(operation) = good.get_mut("operation") {
            *operation = json!("RESET_SPENT"); // The only one that goes with `spent`.
        }
        let request = Request {
            name,
            read,
            document: &document,
            good,
        };
        request.accepts(&request.good, "the sample");
        let checked = request.check(schema, &mut Vec::new());
        assert!(checked > 10, "{name}: {checked} checks");
    }
}

/// A step from a value to one inside it.
#[derive(Clone)]
enum Step {
    Member(String),
    Item(usize),
}

struct Request<'d> {
    name: &'static str,
    read: Read,
    document: &'d Value,
    good: Value,
}

impl Request<'_> {
    /// Breaks every rule of a schema at one place of the sample, and of those below; how many were broken.
    fn check(&self, schema: &Value, place: &mut Vec<Step>) -> usize {
        let schema = resolved(self.document, schema);
        let mut checks = 0;
        for bad in violations(&schema) {
            self.refuses(&self.with(place, bad), &path_of(place));
            checks += 1;
        }
        let last = place.last();
        // Bounded more narrowly than the description may say.
        let narrow = matches!(last, Some(Step::Member(name)) if name == "disable_after_failures");
        for good in limits(&schema) {
            if narrow && good == json!(i64::MAX) {
                continue;
            }
            self.accepts(&self.with(place, good), &path_of(place));
            checks += 1;
        }
        for (member, property) in schema["properties"].as_object().unwrap_or(&Map::new()) {
            let required = schema["required"]
                .as_array()
                .is_some_and(|names| names.contains(&json!(member)));
            place.push(Step::Member(member.clone()));
            let null = self.with(place, Value::Null);
            let absent = self.without(place);
            match required {
                true => [null, absent]
                    .iter()
                    .for_each(|body| self.refuses(body, &path_of(place))),
                false => [null, absent]
                    .iter()
                    .for_each(|body| self.accepts(body, &path_of(place))),
            }
            checks += 2 + self.check(property, place);
            place.pop();
        }
        if schema["additionalProperties"] == json!(false) {
            place.push(Step::Member("surprise".to_owned()));
            self.refuses(&self.with(place, json!(1)), &path_of(place));
            place.pop();
            checks += 1;
        }
        if schema["additionalProperties"].is_object() {
            place.push(Step::Member("key".to_owned()));
            self.refuses(&self.with(place, Value::Null), &path_of(place));
            checks += 1 + self.check(&schema["additionalProperties"], place);
            place.pop();
        }
        if schema["items"].is_object() {
            place.push(Step::Item(0));
            self.refuses(&self.with(place, Value::Null), &path_of(place));
            checks += 1 + self.check(&schema["items"], place);
            place.pop();
        }
        checks
    }

    fn with(&self, place: &[Step], value: Value) -> Value {
        let mut body = self.good.clone();
        let mut at = &mut body;
        for step in place {
            at = match step {
                Step::Member(name) => at
                    .as_object_mut()
                    .expect("the sample has it")
                    .entry(name)
                    .or_insert(Value::Null),
                Step::Item(index) => &mut at[index],
            };
        }
        *at = value;
        body
    }

    fn without(&self, place: &[Step]) -> Value {
        let (last, parents) = place.split_last().expect("a member");
        let Step::Member(name) = last else {
            panic!("a member")
        };
        let mut body = self.good.clone();
        let mut at = &mut body;
        for step in parents {
            at = match step {
                Step::Member(name) => &mut at[name],
                Step::Item(index) => &mut at[index],
            };
        }
        at.as_object_mut().expect("an object").remove(name);
        body
    }

    fn refuses(&self, body: &Value, path: &str) {
        let message = match self.read(body) {
            Ok(()) => panic!("{}: accepted {path} in {body}", self.name),
            Err(problems) => problems.to_string(),
        };
        let named = if path.is_empty() { "the body" } else { path };
        assert!(
            message.contains(named),
            "{}: {named} is not named in: {message}",
            self.name
        );
    }

    fn accepts(&self, body: &Value, path: &str) {
        if let Err(problems) = self.read(body) {
            panic!("{}: refused {path} in {body}: {problems}", self.name);
        }
    }

    fn read(&self, body: &Value) -> Result<(), Problems> {
        let mut body = body.clone();
        // The other operations go without it: the one rule that a description cannot tell.
        let other =
            |operation: &str| ["CREDIT", "DEBIT", "RESET", "REPAY_DEBT"].contains(&operation);
        if body["operation"].as_str().is_some_and(other) {
            body.as_object_mut().expect("an object").remove("spent");
        }
        (self.read)(Json::parse(body.to_string().as_bytes()).expect("JSON"))
    }
}

fn path_of(place: &[Step]) -> String {
    let mut path = String::new();
    for step in place {
        match step {
            Step::Member(name) if path.is_empty() => path.push_str(name),
            Step::Member(name) => path.push_str(&format!(".{name}")),
            Step::Item(index) => path.push_str(&format!("[{index}]")),
        }
    }
    path
}

fn resolved(document: &Value, schema: &Value) -> Value {
    match schema["$ref"].as_str() {
        Some(reference) => document
            .pointer(&reference[1..])
            .expect("it leads somewhere")
            .clone(),
        None => schema.clone(),
    }
}

/// A value that satisfies a schema, with every member that it has.
fn sample(document: &Value, schema: &Value) -> Value {
    let schema = resolved(document, schema);
    if let Some(words) = schema["enum"].as_array() {
        return words[0].clone();
    }
    match schema["type"].as_str().expect("a type") {
        "string" if schema["format"] == "date-time" => json!("2099-07-04T12:00:00Z"),
        "string" if schema["example"].is_string() => schema["example"].clone(),
        "string" => json!("acme"),
        "number" => schema.get("minimum").cloned().unwrap_or(json!(0.5)),
        "integer" => schema.get("minimum").cloned().unwrap_or(json!(0)),
        "boolean" => json!(true),
        "array" => json!([sample(document, &schema["items"])]),
        _ => {
            let mut object = Map::new();
            for (name, property) in schema["properties"].as_object().unwrap_or(&Map::new()) {
                object.insert(name.clone(), sample(document, property));
            }
            if schema["additionalProperties"].is_object() {
                object.insert(
                    "key".to_owned(),
                    sample(document, &schema["additionalProperties"]),
                );
            }
            Value::Object(object)
        }
    }
}

/// Values that break one rule of a schema each.
fn violations(schema: &Value) -> Vec<Value> {
    let kind = schema["type"].as_str().expect("a type");
    let of_kinds = [
        ("string", json!("text")),
        ("integer", json!(7)),
        ("boolean", json!(true)),
        ("array", json!([])),
        ("object", json!({})),
    ];
    let mut bad: Vec<Value> = of_kinds
        .into_iter()
        .filter(|(other, _)| *other != kind && !(*other == "integer" && kind == "number"))
        .map(|(_, value)| value)
        .collect();
    if kind == "integer" {
        bad.extend([
            json!("7"),
            json!(7.5),
            json!(7.0),
            json!(9_223_372_036_854_775_808_u64),
        ]);
    }
    if let Some(words) = schema["enum"].as_array() {
        bad.extend([json!("SURPRISE"), json!(""), json!("a\u{0}")]);
        bad.extend(
            words[0]
                .as_str()
                .map(|word| json!(word.to_ascii_lowercase()))
                .filter(|word| !words.contains(word)),
        );
    }
    if schema["format"] == "date-time" {
        bad.extend([
            json!("yesterday"),
            json!("2026-07-04"),
            json!("1790000000000"),
        ]);
    }
    if schema["pattern"].is_string() {
        bad.extend([json!("a/b"), json!("a b c"), json!("äää"), json!("acme\n")]);
    }
    if kind == "number" {
        bad.push(json!("0.5"));
        let bound = |name: &str| schema[name].as_f64();
        bad.extend(bound("minimum").map(|min| json!(min - 0.001)));
        bad.extend(bound("maximum").map(|max| json!(max + 0.001)));
        return bad;
    }
    let bound = |name: &str| schema[name].as_i64();
    bad.extend(bound("minimum").map(|min| json!(min - 1)));
    bad.extend(bound("maximum").map(|max| json!(max + 1)));
    bad.extend(bound("minLength").map(|min| json!("a".repeat(min as usize - 1))));
    bad.extend(bound("maxLength").map(|max| json!("a".repeat(max as usize + 1))));
    bad.extend(bound("maxItems").map(|max| json!(vec!["a"; max as usize + 1])));
    bad.extend(bound("maxProperties").map(|max| entries(max + 1)));
    bad
}

/// Values at the very end of what a schema allows.
fn limits(schema: &Value) -> Vec<Value> {
    let bound = |name: &str| schema[name].as_i64();
    let mut good = Vec::new();
    good.extend(bound("minimum").map(|min| json!(min)));
    good.extend(bound("maximum").map(|max| json!(max)));
    if schema["type"] == "integer" && bound("maximum").is_none() {
        good.push(json!(i64::MAX));
    }
    good.extend(bound("minLength").map(|min| json!("a".repeat(min as usize))));
    let wide = if schema["pattern"].is_string() {
        "a"
    } else {
        "漢"
    };
    good.extend(bound("maxLength").map(|max| json!(wide.repeat(max as usize))));
    good.extend(bound("maxItems").map(|max| json!(vec!["a"; max as usize])));
    good.extend(bound("maxProperties").map(entries));
    good.extend(schema["enum"].as_array().into_iter().flatten().cloned());
    good
}

fn entries(count: i64) -> Value {
    (0..count)
        .map(|index| (format!("k{index}"), json!("v")))
        .collect::<Map<_, _>>()
        .into()
}
