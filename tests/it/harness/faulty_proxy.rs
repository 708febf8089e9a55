//! A proxy before the service: with a fault, every seventh request of the runtime plane goes wrong.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::{Bytes, Frame};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::http;

/// The injected fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The service performs the operation, and the connection breaks before the response.
    LosesResponses,
    /// The service performs the operation, and the response is a 503.
    RespondsUnavailable,
    /// Loses responses, and charges again what the request charged.
    ChargesReplays,
    /// Charges a unit that no client asked for, once.
    ChargesAUnit,
    /// Refuses for lack of budget.
    Refuses,
}

struct Proxy {
    service: SocketAddr,
    fault: Fault,
    client: reqwest::Client,
    requests: AtomicU64,
    /// The last body with a subject.
    subject: Mutex<Value>,
}

/// Serves on a free port until the test ends, and returns the URL.
pub async fn start(service: SocketAddr, fault: Fault) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let proxy = Arc::new(Proxy {
        service,
        fault,
        client: http::client(),
        requests: AtomicU64::new(0),
        subject: Mutex::default(),
    });
    let router = Router::new().fallback(respond).with_state(proxy);
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

async fn respond(State(proxy): State<Arc<Proxy>>, request: Request) -> Response {
    let (mut head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 100_000).await.expect("a body");
    head.headers.remove(header::HOST);
    head.headers.remove(header::CONTENT_LENGTH);
    let path = head.uri.path_and_query().expect("a path").as_str();
    let forward = || proxy.forward(&head.method, path, &head.headers, body.clone());
    if head.method == Method::GET || path.starts_with("/v1/admin/") {
        return forward().await;
    }
    let number = proxy.requests.fetch_add(1, Ordering::Relaxed) + 1;
    if proxy.fault == Fault::Refuses && number.is_multiple_of(7) {
        return error(StatusCode::CONFLICT, "BUDGET_EXCEEDED");
    }
    let response = forward().await;
    let body: Value = serde_json::from_slice(&body).expect("JSON");
    let actual = body["actual"]["amount"].as_i64();
    if body["subject"].is_object() {
        *proxy.subject.lock().expect("no panic") = body;
    }
    match proxy.fault {
        Fault::ChargesAUnit if number == 7 => proxy.charge(&head.headers, 1).await,
        _ if !number.is_multiple_of(7) => {}
        Fault::RespondsUnavailable => {
            return error(StatusCode::SERVICE_UNAVAILABLE, "INTERNAL_ERROR");
        }
        Fault::ChargesReplays => {
            if let Some(actual) = actual {
                proxy.charge(&head.headers, actual).await;
            }
            return Body::new(BrokenBody).into_response();
        }
        Fault::LosesResponses => return Body::new(BrokenBody).into_response(),
        Fault::ChargesAUnit | Fault::Refuses => {}
    }
    response
}

impl Proxy {
    async fn forward(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Response {
        let url = format!("http://{}{path}", self.service);
        let request = self.client.request(method.clone(), url);
        let request = request.headers(headers.clone()).body(body);
        let response = request.send().await.expect("the service responds");
        let status = response.status();
        (status, response.bytes().await.expect("a body")).into_response()
    }

    /// Charges the ledgers of the last subject.
    async fn charge(&self, headers: &HeaderMap, amount: i64) {
        let mut event = self.subject.lock().expect("no panic").clone();
        for member in ["estimate", "ttl_ms"] {
            event.as_object_mut().expect("an object").remove(member);
        }
        event["idempotency_key"] = format!("{:016x}", rand::random::<u64>()).into();
        event["actual"] = json!({"unit": "TOKENS", "amount": amount});
        let body = event.to_string().into();
        let path = "/v1/events";
        let response = self.forward(&Method::POST, path, headers, body).await;
        assert_eq!(response.status(), StatusCode::CREATED);
    }
}

fn error(status: StatusCode, code: &str) -> Response {
    let body = json!({"error": code, "message": "a fault of the proxy"});
    (status, body.to_string()).into_response()
}

/// A body that breaks the connection before its end.
struct BrokenBody;

impl hyper::body::Body for BrokenBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        Poll::Ready(Some(Err(io::ErrorKind::BrokenPipe.into())))
    }
}
