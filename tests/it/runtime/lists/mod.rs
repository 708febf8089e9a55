//! `GET /v1/reservations`: filters, windows, order, pages.

mod bytes;
mod cursors;
mod damage;
mod expiry;
mod filters;
mod gathering;
mod graces;
mod long_lives;
mod scans;
mod usage_events;

use serde_json::{Value, json};

use crate::harness::app::{TestApp, reserve_body};
use crate::harness::response::Response;

/// Reservations of every status, with equal amounts among them.
pub struct Fixture {
    pub app: TestApp,
    /// In the order of creation.
    pub ids: Vec<String>,
}

/// The reservations of the fixture: idempotency key, amount, further members.
fn bodies() -> Vec<Value> {
    let of = |key: &str, amount: i64, more: Value| {
        let mut body = reserve_body(key, amount);
        for (level, value) in more["subject"].as_object().into_iter().flatten() {
            body["subject"][level] = value.clone();
        }
        if !more["metadata"].is_null() {
            body["metadata"] = more["metadata"].clone();
        }
        body["ttl_ms"] = json!(3_600_000);
        body
    };
    vec![
        of(
            "committed",
            30,
            json!({"subject": {"workspace": "Prod", "agent": "a"}, "metadata": {"note": "first"}}),
        ),
        of("released", 10, json!({"subject": {"agent": "b"}})),
        of("active", 30, json!({"subject": {"app": "x"}})),
        of("expired", 20, json!({"subject": {"workspace": "prod"}})),
        of("late", 30, json!({"subject": {"workspace": "prod-2"}})),
        of("last", 30, json!({"metadata": {"note": null}})),
    ]
}

impl Fixture {
    pub async fn new() -> Self {
        let app = TestApp::spawn().await;
        app.budget("tenant:acme", 1_000_000, 0).await;
        let mut ids = Vec::new();
        for body in bodies() {
            let response = app.post("/v1/reservations", body).await.expect(200);
            ids.push(response.text("/reservation_id").to_owned());
        }
        let of = |id: &str, operation: &str| format!("/v1/reservations/{id}/{operation}");
        let commit = json!({"idempotency_key": "c", "actual": {"unit": "TOKENS", "amount": 25},
            "metadata": {"done": true}});
        let release = json!({"idempotency_key": "r"});
        for response in [
            app.post(&of(&ids[0], "commit"), commit).await,
            app.post(&of(&ids[1], "release"), release).await,
        ] {
            assert_eq!(response.status, 200, "{response:?}");
        }
        let fixture = Self { app, ids };
        fixture.age(&fixture.ids[3]).await;
        fixture
    }

    /// Moves the expiry of a reservation far into the past.
    pub async fn age(&self, id: &str) {
        let partition = self.app.callers[0].partition;
        let record = self.app.store.keys().reservation(partition, id);
        let words = ["HSET", &record, "expires_at_ms", "1000"];
        self.app.run::<()>(&words).await;
    }

    /// One page.
    pub async fn get(&self, query: &str) -> Response {
        let response = self.app.get(&format!("/v1/reservations?{query}")).await;
        assert_eq!(response.status, 200, "{query}: {response:?}");
        let next = !response.at("/next_cursor").is_null();
        assert_eq!(response.at("/has_more"), &json!(next), "{query}");
        response
    }

    /// All rows of all pages.
    pub async fn walk(&self, query: &str, limit: usize) -> Vec<Value> {
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        for _ in 0..1_000 {
            let page = format!("{query}&limit={limit}&cursor={cursor}");
            let response = self.get(&page).await;
            let rows = rows(&response);
            assert!(rows.len() <= limit, "{page}");
            seen.extend(rows);
            match response.at("/next_cursor").as_str() {
                Some(next) => next.clone_into(&mut cursor),
                None => return seen,
            }
        }
        panic!("{query} never ends");
    }

    /// The keys under which the rows of one page were created.
    pub async fn keys(&self, query: &str) -> Vec<String> {
        let mut keys = texts(&rows(&self.get(query).await), "idempotency_key");
        keys.sort();
        keys
    }

    /// A refused list.
    pub async fn refused(&self, query: &str) -> String {
        let response = self.app.get(&format!("/v1/reservations?{query}")).await;
        assert_eq!(
            response.error(),
            (400, "INVALID_REQUEST"),
            "{query}: {response:?}"
        );
        let message = response.text("/message").to_owned();
        assert!(!message.chars().any(char::is_control), "{message:?}");
        message
    }
}

pub fn rows(response: &Response) -> Vec<Value> {
    response
        .at("/reservations")
        .as_array()
        .expect("rows")
        .clone()
}

/// One text of each row.
pub fn texts(rows: &[Value], member: &str) -> Vec<String> {
    let text = |row: &Value| row[member].as_str().expect("a text").to_owned();
    rows.iter().map(text).collect()
}
