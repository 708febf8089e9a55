//! Malformed requests: each is refused as documented, names the fault, echoes nothing dangerous, and
//! changes nothing at all.

mod bodies;
mod facts;
mod fields;
mod heads;
mod parsers;
mod paths;
mod sizes;
mod wire;

use std::sync::Mutex;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::harness::app::{ADMIN_KEY, TestApp};
use crate::harness::redis::RedisServer;
use crate::harness::response::Response;
use crate::harness::retrying_client::LONG_REDIS_TIMEOUT;

/// A service on a Redis of its own, with a reservation, and a digest of all that is stored.
pub struct Target {
    pub app: TestApp,
    pub operations: Vec<Operation>,
    stored: Mutex<String>,
    redis: RedisServer,
}

/// An operation that takes a body.
pub struct Operation {
    pub name: &'static str,
    pub path: String,
    /// A good body with every member.
    pub body: Value,
    /// The status of the response to the valid body.
    pub success: u16,
}

impl Target {
    pub async fn new() -> Self {
        Self::with(&[]).await
    }

    /// The same under these settings.
    pub async fn with(settings: &[&str]) -> Self {
        let redis = RedisServer::start_with(&["--appendonly", "no"]);
        let settings = [settings, LONG_REDIS_TIMEOUT].concat();
        let app = TestApp::spawn_on(&redis.url(), &settings).await;
        app.budget("tenant:acme", 1_000_000, 0).await;
        let reserved = app.reserve("target", 100).await;
        let id = reserved.text("/reservation_id");
        let stored = Mutex::new(app.digest().await);
        Self {
            operations: operations(id),
            app,
            stored,
            redis,
        }
    }

    /// A request of an operation under a good key, without a body.
    pub fn request(&self, operation: &Operation) -> RequestBuilder {
        let request = self.app.request(Method::POST, &operation.path);
        let request = request.header(self.app.names.key, &self.app.keys[0]);
        request.header("Content-Type", "application/json")
    }

    /// Sends a request that must be refused with 400 and a message that names all of `named`.
    pub async fn refused(&self, what: &str, request: RequestBuilder, named: &[&str]) -> Response {
        let response = self.refused_with(what, request, 400).await;
        let message = response.text("/message");
        for part in named {
            assert!(message.contains(part), "{what}: no {part} in: {message}");
        }
        response
    }

    /// Sends a request that must be refused with a status and `INVALID_REQUEST`.
    pub async fn refused_with(&self, what: &str, request: RequestBuilder, status: u16) -> Response {
        let response = self.app.send(request).await;
        assert_eq!(
            response.error(),
            (status, "INVALID_REQUEST"),
            "{what}: {response:?}"
        );
        self.check_echo(what, response.text("/message"));
        self.unchanged(what).await;
        response
    }

    /// Checks that a message holds neither a control character nor a secret.
    pub fn check_echo(&self, what: &str, message: &str) {
        let hostile = |c: char| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c);
        assert!(!message.contains(hostile), "{what}: {message:?}");
        assert!(message.len() <= 16_384, "{what}: {} bytes", message.len());
        for key in &self.app.keys {
            assert!(!message.contains(&key[23..]), "{what} reveals a key");
        }
        assert!(!message.contains(ADMIN_KEY), "{what} reveals the admin key");
        let port = self.redis.port.to_string();
        assert!(
            !message.contains(&port),
            "{what} reveals the address of Redis"
        );
    }

    /// Nothing in Redis has changed.
    pub async fn unchanged(&self, what: &str) {
        let now = self.app.digest().await;
        let stored = self.stored.lock().expect("no panic").clone();
        assert_eq!(now, stored, "{what} has changed something");
    }

    /// Sends a request that succeeds, and takes the stored data as the new state.
    pub async fn accepted(&self, what: &str, request: RequestBuilder, status: u16) -> Response {
        let response = self.app.send(request).await;
        assert_eq!(response.status, status, "{what}: {response:?}");
        self.take_state().await;
        response
    }

    /// Takes the stored data as the state that must not change.
    pub async fn take_state(&self) {
        let now = self.app.digest().await;
        *self.stored.lock().expect("no panic") = now;
    }

    /// Every operation accepts its valid body: refusals had the intended cause.
    pub async fn accepts_valid_bodies(&self) {
        for operation in &self.operations {
            let request = self.request(operation).body(operation.body.to_string());
            self.accepted(operation.name, request, operation.success)
                .await;
        }
    }
}

/// The six operations with a body, in an order in which one reservation can go through them.
fn operations(id: &str) -> Vec<Operation> {
    let subject = json!({"tenant": "acme", "workspace": "Prod", "app": "chat", "workflow": "w",
        "agent": "a", "toolset": "t.1", "dimensions": {"run": "1"}});
    let action = json!({"kind": "llm.completion", "name": "gpt", "tags": ["a", "b"],
        "policy_keys": {"host": "x"}});
    let metrics = json!({"tokens_input": 1, "tokens_output": 2, "latency_ms": 3,
        "model_version": "v", "custom": {"deep": {"x": [1.5, null]}}});
    let (metadata, amount) = (
        json!({"a": {"b": [1]}}),
        json!({"unit": "TOKENS", "amount": 10}),
    );
    let of = |operation: &str| format!("/v1/reservations/{id}/{operation}");
    let operation = |name, path: String, success, body| Operation {
        name,
        path,
        body,
        success,
    };
    vec![
        operation(
            "create",
            "/v1/reservations".to_owned(),
            200,
            json!({"idempotency_key": "create", "subject": subject, "action": action,
                "estimate": amount, "ttl_ms": 60_000, "grace_period_ms": 1_000,
                "overage_policy": "REJECT", "dry_run": false, "observe_mode": "ENFORCE",
                "metadata": metadata}),
        ),
        operation(
            "decide",
            "/v1/decide".to_owned(),
            200,
            json!({"idempotency_key": "decide", "subject": subject, "action": action,
                "estimate": amount, "metadata": metadata}),
        ),
        operation(
            "extend",
            of("extend"),
            200,
            json!({"idempotency_key": "extend", "extend_by_ms": 1_000, "metadata": metadata}),
        ),
        operation(
            "event",
            "/v1/events".to_owned(),
            201,
            json!({"idempotency_key": "event", "subject": subject, "action": action,
                "actual": amount, "overage_policy": "ALLOW_IF_AVAILABLE", "metrics": metrics,
                "client_time_ms": 0, "metadata": metadata}),
        ),
        operation(
            "commit",
            of("commit"),
            200,
            json!({"idempotency_key": "commit", "actual": amount, "metrics": metrics,
                "metadata": metadata}),
        ),
        operation(
            "release",
            of("release"),
            409,
            json!({"idempotency_key": "release", "reason": "done"}),
        ),
    ]
}
