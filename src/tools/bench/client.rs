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
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use url::Url;

use super::args::Workload;
use super::recorder::{Failure, Operation, Recorder};
use super::service::Change;
use crate::api::operations::OperationId as Id;
use crate::tools::setup::UNIT;

/// One hour, the default maximum of a tenant: no hold expires during a run.
pub(super) const TTL_MS: u32 = 3_600_000;

/// After this long without a known outcome, an operation is given up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(30);

/// A request without a response by then is given up, and its connection closed.
const RESPONSE_LIMIT: Duration = Duration::from_secs(10);

/// A keep-alive connection with one request in flight, which costs the generator little; `None` before it opens.
type Connection = Option<SendRequest<Full<Bytes>>>;

/// State that all clients of a run share.
pub(super) struct Shared {
    pub url: Url,
    pub headers: HeaderMap,
    /// The members `subject` and `action` of a request.
    pub subject: String,
    pub workload: Workload,
    /// Operations that finish before are warm-up.
    pub measure_from: Instant,
    /// No operation starts after this.
    pub until: Instant,
    pub recorder: Mutex<Recorder>,
}

/// A request, and the response that it must have, because budgets are ample.
struct Exchange {
    operation: Operation,
    request: Request<Full<Bytes>>,
    /// The beginning of its decision or status.
    word: &'static str,
    change: Change,
}

impl Shared {
    /// Runs a client until the time is over and the last request has its response.
    pub async fn run_client(self: Arc<Self>, number: u64) {
        let steps = self.workload.steps();
        // Clients start at different steps, so that a mix is mixed at any moment.
        let steps = steps.iter().cycle().skip(number as usize * 2 % steps.len());
        let mut connection = None;
        // The reservation of the step before, and its amount.
        let mut hold: Option<(String, i64)> = None;
        for (sequence, &operation) in (1_u64..).zip(steps) {
            if Instant::now() >= self.until {
                return;
            }
            let is_end = matches!(operation, Operation::Commit | Operation::Release);
            if is_end && hold.is_none() {
                // The reserve before it was refused.
                continue;
            }
            let (reservation, held) = hold.take().unwrap_or_default();
            let exchange = self.exchange(operation, [number, sequence], (&reservation, held));
            if let Some(id) = self.complete(&mut connection, &exchange).await {
                self.recorder.lock().change.add(exchange.change);
                if operation == Operation::Reserve {
                    hold = Some((id, exchange.change.reserved));
                }
            }
        }
    }

    /// A client's step. A commit or release ends a reservation: its id, and the amount that it holds.
    fn exchange(&self, operation: Operation, step: [u64; 2], hold: (&str, i64)) -> Exchange {
        let (subject, [number, sequence], (reservation, held)) = (&self.subject, step, hold);
        // The estimate or the actual.
        let amount = match operation {
            // Sometimes the whole hold.
            Operation::Commit => held - sequence as i64 % 101,
            _ => 1_000 + (sequence * 7_919 + number * 31) as i64 % 997,
        };
        let json = format!(r#"{{"unit":"{UNIT}","amount":{amount}}}"#);
        let (id, members, word, reserved, spent) = match operation {
            Operation::Reserve => {
                let members = format!(r#"{subject},"ttl_ms":{TTL_MS},"estimate":{json}"#);
                (Id::CreateReservation, members, "ALLOW", amount, 0)
            }
            Operation::Decide => {
                let members = format!(r#"{subject},"estimate":{json}"#);
                (Id::Decide, members, "ALLOW", 0, 0)
            }
            Operation::Event => {
                let members = format!(r#"{subject},"actual":{json}"#);
                (Id::CreateEvent, members, "APPLIED", 0, amount)
            }
            Operation::Commit => {
                let members = format!(r#","actual":{json}"#);
                (Id::CommitReservation, members, "COMMITTED", -held, amount)
            }
            Operation::Release => (Id::ReleaseReservation, String::new(), "RELEASED", -held, 0),
        };
        let base = self.url.path().trim_end_matches('/');
        let path = id.path().replace("{reservation_id}", reservation);
        // The tenant is new with each run, so no other run has this key.
        let body = format!(r#"{{"idempotency_key":"{number}.{sequence}"{members}}}"#);
        let request = Request::post(format!("{base}{path}")).body(Full::from(body));
        let mut request = request.expect("an id makes a path");
        *request.headers_mut() = self.headers.clone();
        Exchange {
            operation,
            request,
            word,
            change: Change { reserved, spent },
        }
    }

    /// Sends a request until its outcome is known, and returns the id of the reservation or usage event; `None` when it was
    /// refused or given up.
    async fn complete(&self, connection: &mut Connection, exchange: &Exchange) -> Option<String> {
        let begun = Instant::now();
        let mut is_uncertain = false;
        let id = loop {
            match self.attempt(connection, exchange).await {
                Ok(id) => break id,
                Err(Failure { status: 1..500, .. }) => return None,
                Err(_) => is_uncertain = true,
            }
            if begun.elapsed() >= GIVE_UP_AFTER {
                self.recorder.lock().unresolved += 1;
                return None;
            }
            sleep(Duration::from_millis(50)).await;
        };
        if Instant::now() >= self.measure_from {
            let mut recorder = self.recorder.lock();
            let times = recorder.times.entry(exchange.operation).or_default();
            times.record(begun.elapsed());
        }
        if is_uncertain
            && let Ok(again) = self.attempt(connection, exchange).await
            && again != id
        {
            let example = format!("one key, two outcomes: {id}, then {again}");
            self.recorder.lock().contradict(example);
        }
        Some(id)
    }

    /// Sends a request once, and counts the attempt, its failure, and a response with other amounts than requested.
    async fn attempt(
        &self,
        connection: &mut Connection,
        exchange: &Exchange,
    ) -> Result<String, Failure> {
        let response = send(connection, &self.url, exchange.request.clone()).await;
        let mut recorder = self.recorder.lock();
        recorder.attempts += 1;
        let body = response.and_then(|(status, body)| read(status, &body, exchange.word));
        let body = body.inspect_err(|failure| recorder.fail(failure))?;
        let Change { reserved, spent } = exchange.change;
        for (member, expected) in [
            ("reserved", reserved),
            ("charged", spent),
            ("released", -reserved - spent),
        ] {
            // An amount is absent where it follows from the request.
            let amount = body[member]["amount"].as_i64().unwrap_or(expected);
            if amount != expected {
                let operation = exchange.operation;
                recorder.contradict(format!("{operation:?}: {member} {amount}, not {expected}"));
            }
        }
        let [reservation, event] = ["reservation_id", "event_id"].map(|name| body[name].as_str());
        Ok(reservation.or(event).unwrap_or_default().to_owned())
    }
}

/// Reads a response whose decision or status must begin with `word`.
fn read(status: StatusCode, bytes: &[u8], word: &str) -> Result<Value, Failure> {
    let body: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let text = |name: &str| body[name].as_str();
    let outcome = text("decision").or(text("status"));
    if status.is_success() && outcome.is_some_and(|outcome| outcome.starts_with(word)) {
        return Ok(body);
    }
    let code = text("error").or(text("reason_code"));
    let code = code.unwrap_or("UNREADABLE");
    let message = text("message").map_or_else(|| String::from_utf8_lossy(bytes), Into::into);
    Err(Failure::new(status.as_u16(), code, message))
}

/// Sends a request over the connection, which opens when there is none, and reads status and body of the response.
async fn send(
    connection: &mut Connection,
    url: &Url,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), Failure> {
    let failed = |code, message: String| Err(Failure::new(0, code, message));
    let mut sender = match connection.take() {
        Some(sender) if !sender.is_closed() => sender,
        _ => match connect(url).await {
            Ok(sender) => sender,
            Err(error) => return failed("NOT_CONNECTED", format!("cannot connect: {error}")),
        },
    };
    let exchange = async {
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        Ok::<_, hyper::Error>((status, response.into_body().collect().await?.to_bytes()))
    };
    match timeout(RESPONSE_LIMIT, exchange).await {
        Ok(Ok(response)) => {
            *connection = Some(sender);
            Ok(response)
        }
        Ok(Err(_)) => failed("CONNECTION_LOST", "the connection broke".to_owned()),
        Err(_) => failed(
            "NO_RESPONSE",
            format!("no response within {RESPONSE_LIMIT:?}"),
        ),
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
