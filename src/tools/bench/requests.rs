//! Builds the requests of the load.

use std::sync::Arc;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::HeaderMap;
use hyper::{Method, Request};
use serde_json::{Value, json};
use url::Url;

use super::args::Operation;
use super::connection::base_path;
use crate::api::operations::OperationId;
use crate::tools::setup::UNIT;

/// One hour, the default maximum of a tenant: no hold expires during a run.
pub(super) const TTL_MS: u32 = 3_600_000;

/// The levels below the tenant, root first, with the names that the load gives them.
const LEVELS: [(&str, &str); 5] = [
    ("workspace", "prod"),
    ("app", "chat"),
    ("workflow", "answer"),
    ("agent", "helper"),
    ("toolset", "search"),
];

/// The full paths of the budgeted scopes, root first.
pub(super) fn scope_paths(tenant: &str, scopes: u8) -> Vec<String> {
    let mut path = format!("tenant:{tenant}");
    let mut paths = vec![path.clone()];
    for (level, name) in levels(scopes) {
        path.push_str(&format!("/{level}:{name}"));
        paths.push(path.clone());
    }
    paths
}

/// The subject whose budgeted scopes these are.
pub(super) fn subject(tenant: &str, scopes: u8) -> Value {
    let mut subject = json!({"tenant": tenant});
    for (level, name) in levels(scopes) {
        subject[level] = name.into();
    }
    subject
}

fn levels(scopes: u8) -> impl Iterator<Item = (&'static str, &'static str)> {
    let below_tenant = usize::from(scopes).saturating_sub(1);
    LEVELS.into_iter().take(below_tenant)
}

/// Builds requests for one subject.
#[derive(Debug)]
pub(super) struct Requests {
    pub url: Arc<Url>,
    headers: HeaderMap,
    /// The members `subject` and `action`.
    subject: String,
}

impl Requests {
    /// Requests to `url` for a subject with that many scopes; `headers` carry the key.
    pub fn new(url: Arc<Url>, headers: HeaderMap, tenant: &str, scopes: u8) -> Self {
        let subject = subject(tenant, scopes);
        let action = json!({"kind": "llm.completion", "name": "bench:model"});
        Self {
            url,
            headers,
            subject: format!(r#","subject":{subject},"action":{action}"#),
        }
    }

    /// One operation under `key`: `amount` is the estimate or the actual, a release has none. `reservation` is what a
    /// commit or release finishes.
    ///
    /// `None` when the reservation's id does not fit a path.
    pub fn build(
        &self,
        operation: Operation,
        key: &str,
        amount: i64,
        reservation: &str,
    ) -> Option<Request<Full<Bytes>>> {
        let subject = &self.subject;
        let amount = format!(r#"{{"unit":"{UNIT}","amount":{amount}}}"#);
        let members = match operation {
            Operation::Reserve => format!(r#"{subject},"ttl_ms":{TTL_MS},"estimate":{amount}"#),
            Operation::Decide => format!(r#"{subject},"estimate":{amount}"#),
            Operation::Event => format!(r#"{subject},"actual":{amount}"#),
            Operation::Commit => format!(r#","actual":{amount}"#),
            Operation::Release => String::new(),
        };
        let operation = match operation {
            Operation::Reserve => OperationId::CreateReservation,
            Operation::Decide => OperationId::Decide,
            Operation::Event => OperationId::CreateEvent,
            Operation::Commit => OperationId::CommitReservation,
            Operation::Release => OperationId::ReleaseReservation,
        };
        let path = operation.path().replace("{reservation_id}", reservation);
        let body = format!(r#"{{"idempotency_key":"{key}"{members}}}"#);
        let mut request = Request::new(Full::from(body));
        *request.method_mut() = Method::POST;
        let path = format!("{}{path}", base_path(&self.url));
        *request.uri_mut() = path.parse().ok()?;
        *request.headers_mut() = self.headers.clone();
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::bench::connection::plain_url;
    use http_body_util::BodyExt;

    async fn sent(operation: Operation) -> (String, Value) {
        let url = Arc::new(plain_url("http://api.test/base").expect("a URL"));
        let requests = Requests::new(url, HeaderMap::new(), "bench-1", 3);
        let request = requests.build(operation, "k.1", 42, "r05f_x");
        let request = request.expect("a path");
        let uri = request.uri().to_string();
        let body = request.into_body().collect().await.expect("a body");
        let body = serde_json::from_slice(&body.to_bytes()).expect("JSON");
        (uri, body)
    }

    #[tokio::test]
    async fn bodies_are_what_the_protocol_requires() {
        let subject = json!({"tenant": "bench-1", "workspace": "prod", "app": "chat"});
        let action = json!({"kind": "llm.completion", "name": "bench:model"});
        let amount = json!({"unit": "TOKENS", "amount": 42});
        let key = "k.1";
        let reserve = json!({"idempotency_key": key, "subject": subject, "action": action,
            "ttl_ms": 3_600_000, "estimate": amount});
        let decide = json!({"idempotency_key": key, "subject": subject, "action": action, "estimate": amount});
        let event =
            json!({"idempotency_key": key, "subject": subject, "action": action, "actual": amount});
        let commit = json!({"idempotency_key": key, "actual": amount});
        let release = json!({"idempotency_key": key});
        for (operation, path, body) in [
            (Operation::Reserve, "reservations", reserve),
            (Operation::Decide, "decide", decide),
            (Operation::Event, "events", event),
            (Operation::Commit, "reservations/r05f_x/commit", commit),
            (Operation::Release, "reservations/r05f_x/release", release),
        ] {
            let expected = (format!("/base/v1/{path}"), body);
            assert_eq!(sent(operation).await, expected);
        }
    }

    #[test]
    fn the_scopes_lie_on_one_path() {
        assert_eq!(scope_paths("t", 1), ["tenant:t"]);
        assert_eq!(
            scope_paths("t", 6)[5],
            "tenant:t/workspace:prod/app:chat/workflow:answer/agent:helper/toolset:search"
        );
    }
}
