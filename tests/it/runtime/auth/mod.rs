//! Authentication and permissions: API keys, the admin key, reservations of other tenants.

mod keys;
mod permissions;

use serde_json::{Value, json};

use crate::harness::app::{TestApp, reserve_body};
use crate::harness::response::Response;

/// Every operation of the runtime plane with a good request. `id`: a reservation.
pub fn operations(id: &str) -> Vec<(&'static str, String, Option<Value>)> {
    let of = |operation: &str| format!("/v1/reservations/{id}{operation}");
    let mut event = reserve_body("op-event", 1);
    let actual = event["estimate"].take();
    event["actual"] = actual;
    event.as_object_mut().expect("an object").remove("estimate");
    vec![
        (
            "reservations:create",
            "/v1/decide".to_owned(),
            Some(reserve_body("op-decide", 1)),
        ),
        (
            "reservations:create",
            "/v1/reservations".to_owned(),
            Some(reserve_body("op-create", 1)),
        ),
        ("reservations:list", "/v1/reservations".to_owned(), None),
        ("reservations:list", of(""), None),
        (
            "reservations:extend",
            of("/extend"),
            Some(json!({"idempotency_key": "op-extend", "extend_by_ms": 1})),
        ),
        (
            "reservations:release",
            of("/release"),
            Some(json!({"idempotency_key": "op-release"})),
        ),
        (
            "reservations:commit",
            of("/commit"),
            Some(
                json!({"idempotency_key": "op-commit", "actual": {"unit": "TOKENS", "amount": 1}}),
            ),
        ),
        ("reservations:commit", "/v1/events".to_owned(), Some(event)),
        ("balances:read", "/v1/balances?tenant=acme".to_owned(), None),
    ]
}

/// Sends one of them under a key.
pub async fn send_with(app: &TestApp, key: &str, path: &str, body: &Option<Value>) -> Response {
    match body {
        Some(body) => app.post_with(key, path, body).await,
        None => app.get_with(key, path).await,
    }
}

/// A service with a funded tenant and one reservation of it; its id.
pub async fn with_a_reservation(app: &TestApp) -> String {
    app.budget("tenant:acme", 1_000, 0).await;
    let reserved = app.reserve("first", 10).await.expect(200);
    reserved.text("/reservation_id").to_owned()
}
