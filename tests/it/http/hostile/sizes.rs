//! Members that are stored as they are sent, above their limits.

use reqwest::Method;
use serde_json::{Value, json};

use super::Target;
use crate::harness::app::{ADMIN_KEY, TestApp};

/// Free metadata of exactly this many bytes of JSON text.
fn metadata_of(bytes: usize) -> Value {
    json!({"x": "y".repeat(bytes - r#"{"x":""}"#.len())})
}

/// Metrics of exactly this many bytes of JSON text.
fn metrics_of(bytes: usize) -> Value {
    json!({"custom": metadata_of(bytes - r#"{"custom":}"#.len())})
}

/// Caps of exactly this many bytes of JSON text.
fn caps_of(bytes: usize) -> Value {
    let fixed = r#"{"tool_allowlist":["a"]}"#.len();
    let tools = vec!["a"; 1 + (bytes - fixed) / 4];
    let caps = json!({"tool_allowlist": tools});
    assert_eq!(caps.to_string().len(), bytes);
    caps
}

/// Asserts that `body` is refused for its `member`, and names limit and size.
async fn assert_refused(app: &TestApp, path: &str, mut body: Value, member: &str, limit: usize) {
    body[member] = match member {
        "caps" => caps_of(limit + 4),
        "metrics" => metrics_of(limit + 1),
        _ => metadata_of(limit + 1),
    };
    let present = body[member].to_string().len();
    let request = app.request(Method::POST, path).json(&body);
    let request = match path.starts_with("/v1/admin") {
        true => request.header("X-Admin-API-Key", ADMIN_KEY),
        false => request.header(app.names.key, &app.keys[0]),
    };
    let response = app.send(request).await;
    assert_eq!(response.error(), (400, "INVALID_REQUEST"), "{path}");
    let numbers = json!({"limit": limit, "present": present});
    assert_eq!(*response.at("/details"), numbers, "{path}");
    let message = response.text("/message");
    let named = format!("{member}: must have at most {limit} bytes");
    assert!(message.contains(&named), "{path}: {message}");
}

#[tokio::test]
async fn metadata_metrics_and_caps_above_their_limits_are_refused_by_every_operation_that_stores_them()
 {
    let target = Target::new().await;
    let app = &target.app;
    for operation in &target.operations {
        let body = operation.body.clone();
        for member in ["metadata", "metrics"] {
            if body.get(member).is_some() {
                assert_refused(app, &operation.path, body.clone(), member, 16_384).await;
            }
        }
    }
    let amount = json!({"unit": "TOKENS", "amount": 1});
    for (path, body, member, limit) in [
        (
            "/v1/admin/budgets",
            json!({"tenant_id": "acme", "scope": "tenant:acme/app:a", "unit": "TOKENS", "allocated": amount}),
            "metadata",
            16_384,
        ),
        (
            "/v1/admin/api-keys",
            json!({"tenant_id": "acme", "name": "k"}),
            "metadata",
            16_384,
        ),
        (
            "/v1/admin/policies",
            json!({"tenant_id": "acme", "name": "p", "scope_pattern": "tenant:acme/*"}),
            "caps",
            4_096,
        ),
    ] {
        assert_refused(app, path, body, member, limit).await;
    }
    let text = app.telemetry.render().expect("metrics");
    let caps = "budget_limit_refusals_total{limit=\"caps_bytes\"} 1\n";
    assert!(text.contains(caps), "{text}");
    target.accepts_valid_bodies().await;
}

#[tokio::test]
async fn metadata_and_metrics_at_their_limits_are_stored() {
    let app = TestApp::spawn().await;
    app.budget("tenant:acme", 1_000, 0).await;
    let mut body = crate::harness::app::reserve_body("a", 1);
    body["metadata"] = metadata_of(16_384);
    let held = app.post("/v1/reservations", body).await.expect(200);
    let path = format!("/v1/reservations/{}/commit", held.text("/reservation_id"));
    let amount = json!({"unit": "TOKENS", "amount": 1});
    let commit = json!({"idempotency_key": "c", "actual": amount, "metrics": metrics_of(16_384)});
    app.post(&path, commit).await.expect(200);
}
