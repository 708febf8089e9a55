//! One client: a connection with one request in flight.
//!
//! When a response is lost or leaves the outcome open (any 5xx), the client repeats the request under the same key. Then it
//! sends the request once more, because two responses to one key must be the same.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::HeaderMap;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use url::Url;

use super::args::Workload;
use super::recorder::{Failure, Operation, Recorder};
use super::service::Change;
use crate::api::operations::OperationId;
use crate::tools::setup::UNIT;

/// One hour, the default maximum of a tenant: no hold expires during a run.
pub(super) const TTL_MS: u32 = 3_600_000;

/// After this long without a known outcome, an operation is given up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(30);

/// A request without a response by then is given up, and its connection closed.
const RESPONSE_LIMIT: Duration = Duration::from_secs(10);

const PAUSE: Duration = Duration::from_millis(50);

/// The id of the reservation or usage event, and what the operation changed.
type Outcome = (String, Change);

/// An operation, its estimate or actual, and its request.
type Planned<'a> = (Operation, i64, &'a Request<Full<Bytes>>);

/// State that all clients of a run share.
pub(super) struct Shared {
    pub url: Url,
    pub headers: HeaderMap,
    /// The members `subject` and `action` of a request.
    pub subject: String,
    pub workload: Workload,
    /// A random part of every idempotency key.
    pub run: String,
    /// Operations that finish before are warm-up.
    pub measure_from: Instant,
    /// No operation starts after this.
    pub until: Instant,
    pub recorder: Mutex<Recorder>,
}

impl Shared {
    /// Runs a client until the time is over and the last request has its response.
    pub async fn run_client(self: Arc<Self>, number: u64) {
        let steps = self.workload.steps();
        // Clients start at different steps, so that a mix is mixed at any moment.
        let steps = steps.iter().cycle().skip(number as usize * 2 % steps.len());
        let mut connection = Connection(None);
        // The reservation that the next commit or release ends, and its amount.
        let mut hold = None;
        for (sequence, &operation) in (1_u64..).zip(steps) {
            if Instant::now() >= self.until {
                return;
            }
            let ends_hold = matches!(operation, Operation::Commit | Operation::Release);
            let (reservation, held) = match ends_hold.then(|| hold.take()) {
                None => (String::new(), 0),
                Some(Some(hold)) => hold,
                // The reserve before it was refused.
                Some(None) => continue,
            };
            let amount = match operation {
                // Sometimes the whole hold.
                Operation::Commit => held - sequence as i64 % 101,
                _ => 1_000 + (sequence * 7_919 + number * 31) as i64 % 997,
            };
            let key = format!("{}.{number}.{sequence}", self.run);
            let request = self.request(operation, &key, amount, &reservation);
            let planned = (operation, amount, &request);
            let Some((id, change)) = self.complete(&mut connection, planned).await else {
                continue;
            };
            // Budgets are ample, so the service does exactly what was requested.
            let (reserved, spent) = match operation {
                Operation::Reserve => (amount, 0),
                Operation::Commit => (-held, amount),
                Operation::Release => (-held, 0),
                Operation::Event => (0, amount),
                Operation::Decide => (0, 0),
            };
            let mut recorder = self.recorder.lock();
            recorder.change.add(change, 1);
            if change != (Change { reserved, spent }) {
                recorder.contradict(format!("{operation} of {amount}, {held} held: {change:?}"));
            }
            if operation == Operation::Reserve {
                hold = Some((id, change.reserved));
            }
        }
    }

    /// The request of an operation. `amount` is the estimate or the actual, `reservation` what a commit or release ends.
    fn request(
        &self,
        operation: Operation,
        key: &str,
        amount: i64,
        reservation: &str,
    ) -> Request<Full<Bytes>> {
        let subject = &self.subject;
        let json = format!(r#"{{"unit":"{UNIT}","amount":{amount}}}"#);
        let (id, members) = match operation {
            Operation::Reserve => (
                OperationId::CreateReservation,
                format!(r#"{subject},"ttl_ms":{TTL_MS},"estimate":{json}"#),
            ),
            Operation::Decide => (
                OperationId::Decide,
                format!(r#"{subject},"estimate":{json}"#),
            ),
            Operation::Event => (
                OperationId::CreateEvent,
                format!(r#"{subject},"actual":{json}"#),
            ),
            Operation::Commit => (
                OperationId::CommitReservation,
                format!(r#","actual":{json}"#),
            ),
            Operation::Release => (OperationId::ReleaseReservation, String::new()),
        };
        let base = self.url.path().trim_end_matches('/');
        let path = id.path().replace("{reservation_id}", reservation);
        let body = format!(r#"{{"idempotency_key":"{key}"{members}}}"#);
        let mut request = Request::new(Full::from(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = format!("{base}{path}").parse().unwrap_or_default();
        *request.headers_mut() = self.headers.clone();
        request
    }

    /// Sends a request until its outcome is known; `None` when it was refused or given up.
    async fn complete(&self, connection: &mut Connection, planned: Planned<'_>) -> Option<Outcome> {
        let begun = Instant::now();
        let mut is_uncertain = false;
        let outcome = loop {
            match self.attempt(connection, planned).await {
                Ok(outcome) => break outcome,
                Err(failure) if !failure.is_uncertain() => return None,
                Err(_) => is_uncertain = true,
            }
            if begun.elapsed() >= GIVE_UP_AFTER {
                self.recorder.lock().unresolved += 1;
                return None;
            }
            sleep(PAUSE).await;
        };
        let finished = Instant::now();
        let took = (finished >= self.measure_from).then(|| finished - begun);
        self.recorder.lock().finish(planned.0, took);
        if is_uncertain
            && let Ok(again) = self.attempt(connection, planned).await
            && again != outcome
        {
            let example = format!("one key, two outcomes: {outcome:?}, then {again:?}");
            self.recorder.lock().contradict(example);
        }
        Some(outcome)
    }

    /// Sends a request once and counts the attempt and its failure.
    async fn attempt(
        &self,
        connection: &mut Connection,
        (operation, amount, request): Planned<'_>,
    ) -> Result<Outcome, Failure> {
        let response = connection.send(&self.url, request.clone()).await;
        let outcome = response.and_then(|(status, body)| read(operation, amount, status, &body));
        let mut recorder = self.recorder.lock();
        recorder.attempts += 1;
        outcome.inspect_err(|failure| recorder.fail(failure))
    }
}

/// Reads the response to an operation of `requested`.
fn read(
    operation: Operation,
    requested: i64,
    status: StatusCode,
    bytes: &[u8],
) -> Result<Outcome, Failure> {
    let body: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let text = |name: &str| body[name].as_str();
    let amount = |name: &str| body[name]["amount"].as_i64();
    let is_allowed = text("decision").is_some_and(|decision| decision.starts_with("ALLOW"));
    let change = match (operation, text("status")) {
        (Operation::Reserve, _) if is_allowed => amount("reserved").map(|reserved| (reserved, 0)),
        (Operation::Decide, _) if is_allowed => Some((0, 0)),
        // `released` is absent when the whole hold was charged.
        (Operation::Commit, Some("COMMITTED")) => amount("charged").map(|charged| {
            let held = charged.saturating_add(amount("released").unwrap_or(0));
            (-held, charged)
        }),
        (Operation::Release, Some("RELEASED")) => amount("released").map(|held| (-held, 0)),
        // `charged` is present only when it is less than requested.
        (Operation::Event, Some("APPLIED")) => Some((0, amount("charged").unwrap_or(requested))),
        _ => None,
    };
    let Some((reserved, spent)) = change.filter(|_| status.is_success()) else {
        let code = text("error").or(text("reason_code"));
        let message = text("message").map_or_else(|| String::from_utf8_lossy(bytes), Into::into);
        return Err(Failure::new(
            status.as_u16(),
            code.unwrap_or("UNREADABLE"),
            message,
        ));
    };
    let id = text("reservation_id").or(text("event_id"));
    let change = Change { reserved, spent };
    Ok((id.unwrap_or_default().to_owned(), change))
}

/// A keep-alive connection with one request in flight, which costs the generator little. It opens with the next request when
/// there is none.
struct Connection(Option<SendRequest<Full<Bytes>>>);

impl Connection {
    /// Sends a request, and reads status and body of the response.
    async fn send(
        &mut self,
        url: &Url,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let not_connected =
            |error| Failure::new(0, "NOT_CONNECTED", format!("cannot connect: {error}"));
        let mut sender = match self.0.take() {
            Some(sender) if !sender.is_closed() => sender,
            _ => connect(url).await.map_err(not_connected)?,
        };
        let exchange = async {
            sender.ready().await?;
            let response = sender.send_request(request).await?;
            let status = response.status();
            Ok::<_, hyper::Error>((status, response.into_body().collect().await?.to_bytes()))
        };
        let response = match timeout(RESPONSE_LIMIT, exchange).await {
            Ok(response) => {
                response.map_err(|_| Failure::new(0, "CONNECTION_LOST", "the connection broke"))?
            }
            Err(_) => {
                let late = format!("no response within {RESPONSE_LIMIT:?}");
                return Err(Failure::new(0, "NO_RESPONSE", late));
            }
        };
        self.0 = Some(sender);
        Ok(response)
    }
}

async fn connect(url: &Url) -> io::Result<SendRequest<Full<Bytes>>> {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let port = url.port_or_known_default().unwrap_or(80);
    let stream = timeout(RESPONSE_LIMIT, TcpStream::connect((host, port))).await??;
    stream.set_nodelay(true)?;
    let mut builder = http1::Builder::new();
    // Requests are small: one copy costs less than a gathering write.
    let handshake = builder.writev(false).handshake(TokioIo::new(stream));
    let (sender, driver) = handshake.await.map_err(io::Error::other)?;
    tokio::spawn(driver);
    Ok(sender)
}
