//! A service in memory with as much of the protocol as the load needs, and with faults.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use crate::api::operations::OperationId;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use hyper::body::{Bytes, Frame};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// What goes wrong on every seventh request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Performs the operation and breaks the connection instead of responding.
    LosesResponses,
    /// Performs the operation and responds 503.
    RespondsUnavailable,
    /// Loses responses, and charges a commit again when it is retried.
    ChargesReplays,
    /// Loses a unit, once.
    LosesAUnit,
    /// Refuses for lack of budget.
    Refuses,
}

#[derive(Default)]
struct Ledgers {
    requests: u64,
    scopes: Vec<String>,
    allocated: i64,
    reserved: i64,
    spent: i64,
    /// Responses by idempotency key.
    responses: HashMap<String, (StatusCode, Value)>,
    holds: HashMap<String, i64>,
}

type Shared = (Fault, Arc<Mutex<Ledgers>>);

/// Serves on a free port until the runtime ends.
pub async fn start(fault: Fault) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let state: Shared = (fault, Arc::default());
    let router = Router::new().fallback(respond).with_state(state);
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn respond(State((fault, ledgers)): State<Shared>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 100_000).await.expect("a body");
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut ledgers = ledgers.lock().expect("no panic");
    let path = head.uri.path();
    if head.method == Method::GET {
        return json_of(StatusCode::OK, &ledgers.read(path, head.uri.query()));
    }
    if path.starts_with("/v1/admin/") {
        return json_of(StatusCode::CREATED, &ledgers.make(path, &body));
    }
    ledgers.requests += 1;
    let is_faulty = ledgers.requests.is_multiple_of(7);
    if is_faulty && fault == Fault::Refuses {
        let body = json!({"error": "BUDGET_EXCEEDED", "message": "no"});
        return json_of(StatusCode::CONFLICT, &body);
    }
    let key = body["idempotency_key"].as_str().expect("a key").to_owned();
    let (status, response) = match ledgers.responses.get(&key).cloned() {
        Some(response) => {
            if fault == Fault::ChargesReplays {
                ledgers.spent += response.1["charged"]["amount"].as_i64().unwrap_or(0);
            }
            response
        }
        None => {
            let response = ledgers.perform(path, &body, &key);
            ledgers.responses.insert(key, response.clone());
            response
        }
    };
    match fault {
        Fault::LosesResponses | Fault::ChargesReplays if is_faulty => {
            return Body::new(Breaks).into_response();
        }
        Fault::RespondsUnavailable if is_faulty => {
            let body = json!({"error": "INTERNAL_ERROR", "message": "later"});
            return json_of(StatusCode::SERVICE_UNAVAILABLE, &body);
        }
        Fault::LosesAUnit if ledgers.requests == 7 => ledgers.spent -= 1,
        _ => {}
    }
    json_of(status, &response)
}

fn tokens(amount: i64) -> Value {
    json!({"unit": "TOKENS", "amount": amount})
}

impl Ledgers {
    fn read(&self, path: &str, query: Option<&str>) -> Value {
        let mut balances = self.balances().into_iter();
        if path == OperationId::GetBalances.path() {
            let balances: Vec<_> = balances.collect();
            return json!({"balances": balances, "has_more": false});
        }
        let query = query.expect("a scope").as_bytes();
        let mut pairs = url::form_urlencoded::parse(query);
        let (_, scope) = pairs.next().expect("a scope");
        let found = balances.find(|balance| balance["scope_path"] == *scope);
        found.expect("a known scope")
    }

    fn make(&mut self, path: &str, body: &Value) -> Value {
        if path == OperationId::CreateBudget.path() {
            let scope = body["scope"].as_str().expect("a scope");
            self.scopes.push(scope.to_owned());
            self.allocated = body["allocated"]["amount"].as_i64().expect("an amount");
        }
        json!({"key_secret": "sk_live_fake"})
    }

    fn balances(&self) -> Vec<Value> {
        let remaining = self.allocated - self.reserved - self.spent;
        let balance = |scope: &String| {
            json!({"scope": scope.rsplit('/').next(), "scope_path": scope, "remaining": tokens(remaining),
                "reserved": tokens(self.reserved), "spent": tokens(self.spent), "allocated": tokens(self.allocated)})
        };
        self.scopes.iter().map(balance).collect()
    }

    fn perform(&mut self, path: &str, body: &Value, key: &str) -> (StatusCode, Value) {
        let amount = |name: &str| body[name]["amount"].as_i64().expect("an amount");
        let segments: Vec<_> = path.split('/').skip(2).collect();
        let mut take_hold = |id: &str| {
            let held = self.holds.remove(id).expect("a hold");
            self.reserved -= held;
            held
        };
        let response = match segments[..] {
            ["reservations"] => {
                let estimate = amount("estimate");
                self.reserved += estimate;
                let id = format!("r000_{key}");
                self.holds.insert(id.clone(), estimate);
                json!({"decision": "ALLOW", "reservation_id": id, "reserved": tokens(estimate)})
            }
            ["decide"] => json!({"decision": "ALLOW", "affected_scopes": self.scopes}),
            ["events"] => {
                self.spent += amount("actual");
                let response = json!({"status": "APPLIED", "event_id": key});
                return (StatusCode::CREATED, response);
            }
            ["reservations", id, "commit"] => {
                let (held, actual) = (take_hold(id), amount("actual"));
                self.spent += actual;
                let mut response = json!({"status": "COMMITTED", "charged": tokens(actual)});
                if actual < held {
                    response["released"] = tokens(held - actual);
                }
                response
            }
            ["reservations", id, "release"] => {
                json!({"status": "RELEASED", "released": tokens(take_hold(id))})
            }
            _ => {
                let response = json!({"error": "NOT_FOUND", "message": path});
                return (StatusCode::NOT_FOUND, response);
            }
        };
        (StatusCode::OK, response)
    }
}

fn json_of(status: StatusCode, body: &Value) -> Response {
    let headers = [("content-type", "application/json")];
    (status, headers, body.to_string()).into_response()
}

/// A body that breaks the connection before its end.
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
