//! What must hold for any bytes that arrive as a request body. Run by the fuzzer, and by the tests with bodies of their own.

use std::fmt::Debug;

use budget_authority::domain::fields::{Problems, Read as _};
use budget_authority::domain::json::Json;
use budget_authority::domain::payload_hash::PayloadHash;
use budget_authority::domain::reservation::{
    CommitRequest, DecisionRequest, ReleaseRequest, ReservationCreateRequest,
};
use budget_authority::ledger::{EventCreateRequest, ReservationExtendRequest};
use serde::Serialize;

/// Reads bytes as JSON and as every request. Panics when something does not hold.
pub fn check(bytes: &[u8]) {
    let json = match Json::parse(bytes) {
        Ok(json) => json,
        Err(error) => return check_message(&error.to_string()),
    };
    let canonical = json.canonical();
    let again = Json::parse(canonical.as_bytes()).expect("the canonical form is JSON");
    assert_eq!(again.canonical(), canonical, "it is its own canonical form");
    let compact = json.compact();
    let same = Json::parse(compact.as_bytes()).expect("the compact form is JSON");
    assert_eq!(same.compact(), compact, "it is its own compact form");
    assert!(same == json, "the compact form is the same value");
    let hash = PayloadHash::of_body(&json);
    for form in [&again, &same] {
        assert_eq!(PayloadHash::of_body(form), hash, "one hash for all forms");
    }
    check_request(&json, ReservationCreateRequest::from_json, create);
    check_request(&json, DecisionRequest::from_json, decision);
    check_request(&json, EventCreateRequest::from_json, event);
    check_request(&json, CommitRequest::from_json, commit);
    check_request(&json, ReleaseRequest::from_json, release);
    check_request(&json, ReservationExtendRequest::from_json, extend);
}

/// A request that is accepted reads the same when it is read again, from its compact form or as it writes itself.
fn check_request<T: PartialEq + Debug>(
    json: &Json,
    read: fn(Json) -> Result<T, Problems>,
    write: fn(&T) -> Members,
) {
    let request = match read(json.clone()) {
        Ok(request) => request,
        Err(problems) => return check_message(&problems.to_string()),
    };
    let reread = |text: &str| {
        let json = Json::parse(text.as_bytes()).expect("JSON");
        read(json).expect("what was accepted once is accepted again")
    };
    assert_eq!(reread(&json.compact()), request);
    let written = write(&request).text();
    assert_eq!(reread(&written), request, "{written}");
    assert_eq!(write(&reread(&written)).text(), written);
    // The canonical form writes free data in its own way, and then in no other.
    let canonical = reread(&json.canonical());
    let canonical = write(&canonical).canonical();
    assert_eq!(write(&request).canonical(), canonical);
}

fn check_message(message: &str) {
    assert!(!message.chars().any(char::is_control), "{message:?}");
    assert!(message.len() <= 65_536, "{} bytes", message.len());
}

/// The members of a request as JSON texts; absent ones are left out.
struct Members(Vec<(&'static str, String)>);

impl Members {
    fn new() -> Self {
        Self(Vec::new())
    }

    fn with(mut self, name: &'static str, value: impl Serialize) -> Self {
        let text = serde_json::to_string(&value).expect("it serialises");
        if text != "null" {
            self.0.push((name, text));
        }
        self
    }

    fn text(&self) -> String {
        let members = self
            .0
            .iter()
            .map(|(name, text)| format!("\"{name}\":{text}"));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }

    fn canonical(&self) -> String {
        let json = Json::parse(self.text().as_bytes());
        json.expect("JSON").canonical()
    }
}

fn create(request: &ReservationCreateRequest) -> Members {
    Members::new()
        .with("idempotency_key", &request.idempotency_key)
        .with("subject", &request.subject)
        .with("action", &request.action)
        .with("estimate", request.estimate)
        .with("ttl_ms", request.ttl_ms)
        .with("grace_period_ms", request.grace_period_ms)
        .with("overage_policy", request.overage_policy)
        .with("dry_run", request.dry_run)
        .with("metadata", &request.metadata)
        .with("observe_mode", request.observe_mode)
}

fn decision(request: &DecisionRequest) -> Members {
    Members::new()
        .with("idempotency_key", &request.idempotency_key)
        .with("subject", &request.subject)
        .with("action", &request.action)
        .with("estimate", request.estimate)
        .with("metadata", &request.metadata)
}

fn event(request: &EventCreateRequest) -> Members {
    Members::new()
        .with("idempotency_key", &request.idempotency_key)
        .with("subject", &request.subject)
        .with("action", &request.action)
        .with("actual", request.actual)
        .with("overage_policy", request.overage_policy)
        .with("metrics", &request.metrics)
        .with("client_time_ms", request.client_time_ms)
        .with("metadata", &request.metadata)
}

fn commit(request: &CommitRequest) -> Members {
    Members::new()
        .with("idempotency_key", &request.idempotency_key)
        .with("actual", request.actual)
        .with("metrics", &request.metrics)
        .with("metadata", &request.metadata)
}

fn release(request: &ReleaseRequest) -> Members {
    Members::new()
        .with("idempotency_key", &request.idempotency_key)
        .with("reason", &request.reason)
}

fn extend(request: &ReservationExtendRequest) -> Members {
    Members::new()
        .with("idempotency_key", &request.idempotency_key)
        .with("extend_by_ms", request.extend_by_ms)
        .with("metadata", &request.metadata)
}
