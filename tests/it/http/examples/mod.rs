//! The examples of the description are recorded from a running service, in a story that calls every operation. Run
//! with `UPDATE_SNAPSHOTS=1` to record it; an example with the same shape as the recorded one is kept.

pub(crate) mod story;

use budget_authority::api::dialect::Dialect;
use budget_authority::api::openapi::document;
use budget_authority::api::operation::Callers;
use budget_authority::api::operations::OperationId;
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::deliveries::here;
use crate::harness::response::Response;

const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/api/openapi/examples.json");

/// Calls operations and records requests and responses.
pub struct Recorder {
    pub app: TestApp,
    /// The API key of operations that take one; all others get the admin key.
    pub key: String,
    examples: Map<String, Value>,
}

impl Recorder {
    fn new(app: TestApp) -> Self {
        Self {
            app,
            key: String::new(),
            examples: Map::new(),
        }
    }

    /// Calls an operation with parameters of its path and query, and a body unless it is null.
    pub async fn call(
        &mut self,
        id: OperationId,
        parameters: &[(&str, &str)],
        body: Value,
    ) -> Response {
        let operation = id.operation();
        let mut path = operation.path_in(Dialect::Service).into_owned();
        let mut query = Vec::new();
        for (name, value) in parameters {
            let place = format!("{{{name}}}");
            match path.contains(&place) {
                true => path = path.replace(&place, value),
                false => query.push(format!("{name}={value}")),
            }
        }
        let path = format!("{path}?{}", query.join("&"));
        let mut request = self.app.request(operation.method.clone(), &path);
        request = match operation.callers {
            Callers::Public => request,
            Callers::Admin => request.header("X-Admin-API-Key", ADMIN_KEY),
            Callers::Tenant(_) | Callers::Both(_) => request.header(self.app.names.key, &self.key),
        };
        if !body.is_null() {
            request = request.json(&body);
        }
        let response = self.app.send(request).await;
        assert!(response.is_success(), "{id}: {response:?}");
        let parameters: Map<_, _> = parameters
            .iter()
            .map(|(name, value)| (name.to_string(), json!(value)))
            .collect();
        let mut example = json!({"parameters": parameters, "status": response.status});
        for (member, value) in [("request", body), ("response", response.body.clone())] {
            if !value.is_null() {
                example[member] = presentable(value);
            }
        }
        self.examples.insert(id.to_string(), example);
        response
    }

    /// Calls an operation that the description does not show.
    pub async fn prepare(&self, method: Method, path: &str, body: Value) -> Response {
        let response = self.app.as_admin(method, path, &body).await;
        assert!(response.is_success(), "{path}: {response:?}");
        response
    }
}

/// Without secrets, and without the address of the test's receiver.
fn presentable(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let shorten = |(name, value): (String, Value)| match value {
                Value::String(secret) if name.ends_with("_secret") => {
                    let start: String = secret.chars().take(12).collect();
                    (name, json!(format!("{start}…")))
                }
                value => (name, presentable(value)),
            };
            members.into_iter().map(shorten).collect()
        }
        Value::Array(items) => items.into_iter().map(presentable).collect(),
        Value::String(text) if text.starts_with("http://127.0.0.1:") => {
            json!("https://hooks.example.com/budget")
        }
        value => value,
    }
}

/// The shape of a value, which must not change: names, types and depth. Every list has the shape of its first row.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| (name.clone(), shape(member)))
            .collect(),
        Value::Array(items) => items.iter().take(1).map(shape).collect(),
        Value::String(_) => json!("text"),
        Value::Number(_) => json!("number"),
        Value::Bool(_) => json!("truth"),
        Value::Null => Value::Null,
    }
}

fn recorded() -> Map<String, Value> {
    let text = std::fs::read_to_string(RECORDED).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_examples_are_what_the_service_returns() {
    let mut present = story::run(here().await).await;
    let former = recorded();
    for (name, example) in &mut present {
        if let Some(known) = former.get(name)
            && shape(known) == shape(example)
        {
            *example = known.clone();
        }
    }
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        let text = serde_json::to_string_pretty(&present).expect("JSON") + "\n";
        std::fs::write(RECORDED, text).expect("the examples can be written");
        return;
    }
    for id in OperationId::ALL {
        let (then, now) = (former.get(id.as_str()), present.get(id.as_str()));
        assert_eq!(
            then.map(shape),
            now.map(shape),
            "{id}: UPDATE_SNAPSHOTS=1 records it"
        );
        assert!(now.is_some(), "{id} is not in the story");
    }
    assert_eq!(former.len(), OperationId::ALL.len());
}

#[test]
fn every_operation_is_described_with_an_example() {
    for (dialect, prefix) in [
        (Dialect::Service, "sk_live_"),
        (Dialect::Cycles, "cyc_live_"),
    ] {
        let document = document(dialect);
        for operation in OperationId::ALL.iter().map(|id| id.operation()) {
            let method = operation.method.as_str().to_lowercase();
            let described = &document["paths"][operation.path_in(dialect).as_ref()][method];
            let json = |holder: &Value| holder["content"]["application/json"]["example"].clone();
            if operation.declaration.request.is_some() {
                assert!(
                    json(&described["requestBody"]).is_object(),
                    "{}",
                    operation.name
                );
            }
            let responses = described["responses"].as_object().expect("responses");
            let with_example = responses
                .values()
                .filter(|one| json(one).is_object())
                .count();
            let has_body = !responses.contains_key("204");
            assert_eq!(with_example, usize::from(has_body), "{}", operation.name);
            let parameters = described["parameters"].as_array().into_iter().flatten();
            for parameter in parameters.filter(|parameter| parameter["in"] == "path") {
                assert!(parameter["example"].is_string(), "{}", operation.name);
            }
        }
        assert!(document["paths"].to_string().contains(prefix));
    }
}
