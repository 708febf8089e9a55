//! A service in memory that speaks as much of the protocol as the load needs, and can misbehave.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use hyper::body::{Bytes, Frame};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// How the service misbehaves, from time to time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Does what it is asked and breaks the connection instead of answering.
    LosesAnswers,
    /// Does what it is asked and answers 503.
    SaysUnavailable,
    /// Charges a commit again when it is repeated.
    ChargesRepetitions,
    /// Forgets a unit.
    LosesAUnit,
    /// Refuses for lack of funds.
    Refuses,
}

#[derive(Default)]
struct Ledgers {
    requests: u64,
    scopes: Vec<String>,
    allocated: i64,
    reserved: i64,
    spent: i64,
    /// Answers by idempotency key.
    answers: HashMap<String, (StatusCode, Value)>,
    holds: HashMap<String, i64>,
}

type Shared = (Fault, Arc<Mutex<Ledgers>>);

/// Serves on a free port until the runtime ends.
pub async fn start(fault: Fault) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let state: Shared = (fault, Arc::default());
    let router = Router::new().fallback(answer).with_state(state);
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn answer(State((fault, ledgers)): State<Shared>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 100_000).await.expect("a body");
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut ledgers = lock(&ledgers);
    let path = head.uri.path();
    if head.method == Method::GET {
        return json_of(StatusCode::OK, &ledgers.tell(path, head.uri.query()));
    }
    if let Some(made) = path.strip_prefix("/v1/admin/") {
        return json_of(StatusCode::CREATED, &ledgers.make(made, &body));
    }
    ledgers.requests += 1;
    let misbehaves = ledgers.requests.is_multiple_of(7);
    if misbehaves && fault == Fault::Refuses {
        let body = json!({"error": "BUDGET_EXCEEDED", "message": "no"});
        return json_of(StatusCode::CONFLICT, &body);
    }
    let key = body["idempotency_key"].as_str().expect("a key").to_owned();
    let (status, answer) = match ledgers.answers.get(&key).cloned() {
        Some(answer) => {
            if fault == Fault::ChargesRepetitions {
                ledgers.spent += answer.1["charged"]["amount"].as_i64().unwrap_or(0);
            }
            answer
        }
        None => {
            let answer = ledgers.perform(path, &body, &key);
            ledgers.answers.insert(key, answer.clone());
            answer
        }
    };
    match fault {
        Fault::LosesAnswers | Fault::ChargesRepetitions if misbehaves => {
            Body::new(Breaks).into_response()
        }
        Fault::SaysUnavailable if misbehaves => {
            let body = json!({"error": "INTERNAL_ERROR", "message": "later"});
            json_of(StatusCode::SERVICE_UNAVAILABLE, &body)
        }
        Fault::LosesAUnit if ledgers.requests == 7 => {
            ledgers.spent -= 1;
            json_of(status, &answer)
        }
        _ => json_of(status, &answer),
    }
}

impl Ledgers {
    fn tell(&self, path: &str, query: Option<&str>) -> Value {
        match path {
            "/v1/balances" => json!({"balances": self.balances(), "has_more": false}),
            _ => {
                let query = query.expect("a scope").as_bytes();
                let mut pairs = url::form_urlencoded::parse(query);
                let (_, scope) = pairs.next().expect("a scope");
                let balances = self.balances();
                let mut balances = balances.into_iter();
                let found = balances.find(|balance| balance["scope_path"] == *scope);
                found.expect("a known scope")
            }
        }
    }

    fn make(&mut self, what: &str, body: &Value) -> Value {
        if what == "budgets" {
            let scope = body["scope"].as_str().expect("a scope");
            self.scopes.push(scope.to_owned());
            self.allocated = body["allocated"]["amount"].as_i64().expect("an amount");
        }
        json!({"key_secret": "sk_live_fake"})
    }

    fn balances(&self) -> Vec<Value> {
        let amount = |amount: i64| json!({"unit": "TOKENS", "amount": amount});
        let remaining = self.allocated - self.reserved - self.spent;
        let balance = |scope: &String| {
            json!({"scope": scope.rsplit('/').next(), "scope_path": scope, "remaining": amount(remaining),
                "reserved": amount(self.reserved), "spent": amount(self.spent), "allocated": amount(self.allocated)})
        };
        self.scopes.iter().map(balance).collect()
    }

    fn perform(&mut self, path: &str, body: &Value, key: &str) -> (StatusCode, Value) {
        let amount_of = |name: &str| body[name]["amount"].as_i64();
        let amount = |amount: i64| json!({"unit": "TOKENS", "amount": amount});
        let id = || path.split('/').nth(3).expect("an id");
        let answer = match (path, path.rsplit('/').next()) {
            ("/v1/reservations", _) => {
                let estimate = amount_of("estimate").expect("an estimate");
                self.reserved += estimate;
                let id = format!("r000_{key}");
                self.holds.insert(id.clone(), estimate);
                json!({"decision": "ALLOW", "reservation_id": id, "affected_scopes": self.scopes,
                    "scope_path": self.scopes.last(), "reserved": amount(estimate),
                    "expires_at_ms": 1_790_000_000_000_i64, "remaining_ttl_ms": 60_000, "balances": self.balances()})
            }
            ("/v1/decide", _) => json!({"decision": "ALLOW", "affected_scopes": self.scopes}),
            ("/v1/events", _) => {
                self.spent += amount_of("actual").expect("an actual");
                let answer =
                    json!({"status": "APPLIED", "event_id": key, "balances": self.balances()});
                return (StatusCode::CREATED, answer);
            }
            (_, Some("commit")) => {
                let held = self.holds.remove(id()).expect("a hold");
                let actual = amount_of("actual").expect("an actual");
                self.reserved -= held;
                self.spent += actual;
                let mut answer = json!({"status": "COMMITTED", "charged": amount(actual), "balances": self.balances()});
                if actual < held {
                    answer["released"] = amount(held - actual);
                }
                answer
            }
            (_, Some("release")) => {
                let held = self.holds.remove(id()).expect("a hold");
                self.reserved -= held;
                json!({"status": "RELEASED", "released": amount(held), "balances": self.balances()})
            }
            _ => {
                return (
                    StatusCode::NOT_FOUND,
                    json!({"error": "NOT_FOUND", "message": path}),
                );
            }
        };
        (StatusCode::OK, answer)
    }
}

fn json_of(status: StatusCode, body: &Value) -> Response {
    let headers = [("content-type", "application/json")];
    (status, headers, body.to_string()).into_response()
}

fn lock(ledgers: &Mutex<Ledgers>) -> MutexGuard<'_, Ledgers> {
    ledgers.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A body that ends the connection before it has an end.
struct Breaks;

impl hyper::body::Body for Breaks {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready(Some(Err(io::ErrorKind::BrokenPipe.into())))
    }
}
