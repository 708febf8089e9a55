//! The OpenAPI description of requests is enforced: every bound, word and type of every member.

mod samples;

use budget_authority::api::admin::budgets::{BudgetFundingRequest, BudgetStatusTransitionRequest};
use budget_authority::api::admin::bulk_actions::{
    BudgetBulkActionRequest, TenantBulkActionRequest, WebhookBulkActionRequest,
};
use budget_authority::api::admin::credentials::ApiKeyValidationRequest;
use budget_authority::api::dialect::Dialect;
use budget_authority::api::openapi::document;
use budget_authority::domain::amount::Unit;
use budget_authority::domain::api_key::{ApiKeyCreateRequest, ApiKeyUpdateRequest};
use budget_authority::domain::budget::increase::BudgetIncreaseRequest;
use budget_authority::domain::budget::ledger::{BudgetCreateRequest, BudgetUpdateRequest};
use budget_authority::domain::fields::{Problems, Read as _};
use budget_authority::domain::json::Json;
use budget_authority::domain::policy::{PolicyCreateRequest, PolicyUpdateRequest};
use budget_authority::domain::reservation::RefundRequest;
use budget_authority::domain::reservation::{
    CommitRequest, DecisionRequest, ReleaseRequest, ReservationCreateRequest,
};
use budget_authority::domain::tenant::{TenantCreateRequest, TenantUpdateRequest};
use budget_authority::domain::webhook::{WebhookCreateRequest, WebhookUpdateRequest};
use budget_authority::ledger::{EventCreateRequest, ReservationExtendRequest};
use samples::{limits, resolved, sample, violations};
use serde_json::{Map, Value, json};

type Read = fn(Json) -> Result<(), Problems>;

/// Every request with a body, by the name of its schema.
const REQUESTS: [(&str, Read); 24] = [
    ("TenantBulkActionRequest", |body| {
        TenantBulkActionRequest::from_json(body).map(drop)
    }),
    ("WebhookBulkActionRequest", |body| {
        WebhookBulkActionRequest::from_json(body).map(drop)
    }),
    ("BudgetBulkActionRequest", |body| {
        BudgetBulkActionRequest::from_json(body).map(drop)
    }),
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
    ("BudgetIncreaseRequest", |body| {
        BudgetIncreaseRequest::from_json(body).map(drop)
    }),
    ("RefundRequest", |body| {
        RefundRequest::from_json(body).map(drop)
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
fn every_described_request_is_tested() {
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
fn described_bounds_are_enforced_naming_the_member() {
    let document = document(Dialect::Service);
    for (name, read) in REQUESTS {
        let schema = &document["components"]["schemas"][name];
        let mut good = sample(&document, schema);
        for member in ["operation", "action"] {
            if good.get("spent").is_some() && good.get(member).is_some() {
                good[member] = json!("RESET_SPENT"); // The only one that goes with `spent`.
            }
        }
        if let Some(filter) = good.get_mut("filter").and_then(Value::as_object_mut) {
            filter.remove("observe_mode");
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
            // Described for the protocol, and never accepted.
            if member == "observe_mode" {
                continue;
            }
            let funds = ["BudgetBulkActionRequest", "BudgetFundingRequest"].contains(&self.name);
            let in_effect = funds && member == "amount";
            let required = in_effect
                || schema["required"]
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
        // The other operations do not allow it, a rule that the description cannot express.
        let other =
            |operation: &str| ["CREDIT", "DEBIT", "RESET", "REPAY_DEBT"].contains(&operation);
        let named = [&body["operation"], &body["action"]];
        if named.into_iter().filter_map(Value::as_str).any(other) {
            body.as_object_mut().expect("an object").remove("spent");
        }
        if named_one(&body, "RENEW") {
            let members = body.as_object_mut().expect("an object");
            members.remove("spent");
            members.remove("amount");
        }
        // One of the two; the other is what is tested.
        if !body["until"].is_null() && !body["for"].is_null() {
            let is_good = body["until"] == self.good["until"];
            let unused = if is_good { "until" } else { "for" };
            body.as_object_mut().expect("an object").remove(unused);
        }
        if !body["period"].is_null() {
            fit_period(&mut body, &self.good);
        }
        let good = &self.good["budget_templates"][0];
        if let Some(template) = body.pointer_mut("/budget_templates/0") {
            fit_template(template, good);
        }
        let share = |name: &str| {
            let share = body["filter"][name].as_f64();
            share.filter(|share| (0.0..=1.0).contains(share))
        };
        let shares = share("utilization_min").zip(share("utilization_max"));
        if shares.is_some_and(|(least, most)| least > most) {
            body["filter"]["utilization_max"] = json!(1);
        }
        (self.read)(Json::parse(body.to_string().as_bytes()).expect("JSON"))
    }
}

/// Leaves out what a budget with a period does not take beside it: the part that the sample has, and not the part that is tested.
fn fit_period(body: &mut Value, good: &Value) {
    let remove = |value: &mut Value, name: &str| {
        value.as_object_mut().expect("an object").remove(name);
    };
    for name in ["period_start", "period_end"] {
        if body[name] == good[name] {
            remove(body, name);
        } else if body["period"] == good["period"] {
            remove(body, "period");
            return;
        }
    }
    if body["period"]["carry_limit"] == good["period"]["carry_limit"] && body["period"].is_object()
    {
        remove(&mut body["period"], "carry_limit");
    } else {
        body["rollover_policy"] = json!("CARRY_FORWARD");
    }
}

/// Gives all amounts of a template of budgets the unit that is tested, and a period what it takes.
fn fit_template(template: &mut Value, good: &Value) {
    const UNITS: [&str; 6] = [
        "/unit",
        "/allocated/unit",
        "/overdraft_limit/unit",
        "/period/allocated/unit",
        "/period/carry_limit/unit",
        "/limits/0/amount/unit",
    ];
    if template["period"].is_object() {
        fit_period(template, good);
    }
    let is_tested = |place: &&str| template.pointer(place) != good.pointer(place);
    let tested = UNITS.iter().copied().filter(is_tested);
    let mut tested = tested.filter_map(|place| template.pointer(place).cloned());
    let is_unit = |unit: &Value| {
        unit.as_str()
            .is_some_and(|unit| Unit::parse(unit).is_some())
    };
    let Some(unit) = tested.find(is_unit) else {
        return;
    };
    for place in UNITS {
        if let Some(other) = template.pointer_mut(place) {
            *other = unit.clone();
        }
    }
}

/// Whether it names this operation or action.
fn named_one(body: &Value, operation: &str) -> bool {
    [&body["operation"], &body["action"]].contains(&&json!(operation))
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
