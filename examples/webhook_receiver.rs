//! Receives webhooks: verifies each signature, drops repeats, and prints one line per event.
//!
//!     WEBHOOK_SECRET_FILE=secret cargo run --example webhook_receiver -- [PORT]
//!
//! `WEBHOOK_SECRET` can hold the secret itself.

use std::collections::HashSet;
use std::io::{Error, Result};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

/// What the handler knows.
struct Receiver {
    /// The whole signing secret, with its `whsec_` if it has one.
    secret: String,
    /// The ids of the events that were handled. Real receivers keep them where a restart does not lose them, in the same
    /// transaction as what they do with the event.
    seen: Mutex<HashSet<String>>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let port = std::env::args().nth(1).unwrap_or_else(|| "9000".to_owned());
    let receiver = Receiver {
        secret: secret_from_environment()?,
        seen: Mutex::default(),
    };
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let routes = Router::new()
        .route("/", post(receive))
        .with_state(Arc::new(receiver));
    axum::serve(listener, routes).await
}

fn secret_from_environment() -> Result<String> {
    if let Ok(path) = std::env::var("WEBHOOK_SECRET_FILE") {
        return Ok(std::fs::read_to_string(path)?.trim().to_owned());
    }
    std::env::var("WEBHOOK_SECRET").map_err(|_| {
        Error::other("set WEBHOOK_SECRET or WEBHOOK_SECRET_FILE to the signing secret")
    })
}

/// Answers 204 to what is signed, 401 to what is not. axum refuses bodies above 2 MB.
async fn receive(
    State(receiver): State<Arc<Receiver>>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    // Verify first, parse later.
    if !is_signed(&receiver.secret, &body, &headers) {
        return StatusCode::UNAUTHORIZED;
    }
    let Ok(event) = serde_json::from_slice::<Value>(&body) else {
        return StatusCode::BAD_REQUEST;
    };
    let text = |name: &str| event[name].as_str().unwrap_or_default();
    let is_new = {
        let mut seen = receiver.seen.lock().expect("nothing panics with it");
        seen.insert(text("event_id").to_owned())
    };
    if is_new {
        println!(
            "{} {} {}",
            text("timestamp"),
            text("event_type"),
            event["data"]
        );
    }
    // After the work, or after it is stored: a lost answer brings the event again.
    StatusCode::NO_CONTENT
}

/// Whether the header is the HMAC of the exact bytes of the body, compared in constant time.
fn is_signed(secret: &str, body: &[u8], headers: &HeaderMap) -> bool {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key of any length");
    mac.update(body);
    let digest = Bytes::copy_from_slice(&mac.finalize().into_bytes());
    let expected = format!("sha256={digest:x}");
    let signature = headers.get("X-Service-Signature");
    signature.is_some_and(|signature| signature.as_bytes().ct_eq(expected.as_bytes()).into())
}
