//! One client: a connection with one request in flight.
//!
//! When a response is lost or leaves the outcome open (any 5xx), the client repeats the request under the same key. Then it
//! sends the request once more, because two responses to one key must be the same.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::HeaderMap;
use hyper::{Method, Request, StatusCode};
use serde::Deserialize;
use tokio::time::sleep;
use url::Url;

use super::args::Workload;
use super::connection::Connection;
use super::ledger::Change;
use super::recorder::{Failure, Operation, Recorder};
use crate::api::operations::OperationId;
use crate::tools::setup::UNIT;

/// One hour, the default maximum of a tenant: no hold expires during a run.
pub(super) const TTL_MS: u32 = 3_600_000;

/// After this long without a known outcome, an operation is given up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(50);

/// The id of the reservation or usage event, and what the operation changed.
type Outcome = (String, Change);

/// An operation, its estimate or actual, and its request.
type Planned<'a> = (Operation, i64, &'a Request<Full<Bytes>>);

/// The members of any response that say what happened.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Body {
    decision: String,
    status: String,
    reservation_id: Option<String>,
    event_id: Option<String>,
    reserved: Option<Amount>,
    charged: Option<Amount>,
    released: Option<Amount>,
    error: Option<String>,
    reason_code: Option<String>,
    message: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
struct Amount {
    amount: i64,
}

/// What all clients of a run share.
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
    /// The recorder of all clients. They run on one thread, so the lock is always free.
    pub fn recorder(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a client until the time is over and the last request has its response.
    pub async fn run_client(self: Arc<Self>, number: u64) {
        let steps = self.workload.steps();
        // Clients start at different steps, so that a mix is mixed at any moment.
        let steps = steps.iter().cycle().skip(number as usize * 2 % steps.len());
        let mut connection = Connection::default();
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
            let mut recorder = self.recorder();
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
        use OperationId::{
            CommitReservation, CreateEvent, CreateReservation, Decide, ReleaseReservation,
        };
        let subject = &self.subject;
        let json = format!(r#"{{"unit":"{UNIT}","amount":{amount}}}"#);
        let reserve = || format!(r#"{subject},"ttl_ms":{TTL_MS},"estimate":{json}"#);
        let (id, members) = match operation {
            Operation::Reserve => (CreateReservation, reserve()),
            Operation::Decide => (Decide, format!(r#"{subject},"estimate":{json}"#)),
            Operation::Event => (CreateEvent, format!(r#"{subject},"actual":{json}"#)),
            Operation::Commit => (CommitReservation, format!(r#","actual":{json}"#)),
            Operation::Release => (ReleaseReservation, String::new()),
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
                self.recorder().unresolved += 1;
                return None;
            }
            sleep(PAUSE).await;
        };
        let finished = Instant::now();
        let took = (finished >= self.measure_from).then(|| finished - begun);
        self.recorder().finish(planned.0, took);
        if is_uncertain
            && let Ok(again) = self.attempt(connection, planned).await
            && again != outcome
        {
            let example = format!("one key, two outcomes: {outcome:?}, then {again:?}");
            self.recorder().contradict(example);
        }
        Some(outcome)
    }

    /// Sends a request once and counts the attempt and its failure.
    async fn attempt(
        &self,
        connection: &mut Connection,
        (operation, amount, request): Planned<'_>,
    ) -> Result<Outcome, Failure> {
        let outcome = match connection.send(&self.url, request.clone()).await {
            Ok((status, body)) => read(operation, amount, status, &body),
            Err((code, message)) => Err(Failure {
                status: 0,
                code: code.to_owned(),
                message,
                count: 1,
            }),
        };
        let mut recorder = self.recorder();
        recorder.attempts += 1;
        if let Err(failure) = &outcome {
            recorder.fail(failure);
        }
        outcome
    }
}

/// Reads the response to an operation of `requested`.
fn read(
    operation: Operation,
    requested: i64,
    status: StatusCode,
    text: &[u8],
) -> Result<Outcome, Failure> {
    let body: Body = serde_json::from_slice(text).unwrap_or_default();
    let amount = |amount: Option<Amount>| amount.map(|amount| amount.amount);
    let change = || {
        let is_allowed = body.decision.starts_with("ALLOW");
        let (reserved, spent) = match (operation, body.status.as_str()) {
            (Operation::Reserve, _) if is_allowed => (amount(body.reserved)?, 0),
            (Operation::Decide, _) if is_allowed => (0, 0),
            // `released` is absent when the whole hold was charged.
            (Operation::Commit, "COMMITTED") => {
                let (charged, released) = (amount(body.charged)?, amount(body.released));
                (-charged.saturating_add(released.unwrap_or(0)), charged)
            }
            (Operation::Release, "RELEASED") => (-amount(body.released)?, 0),
            // `charged` is present only when it is less than requested.
            (Operation::Event, "APPLIED") => (0, amount(body.charged).unwrap_or(requested)),
            _ => return None,
        };
        Some(Change { reserved, spent })
    };
    match change().filter(|_| status.is_success()) {
        Some(change) => Ok((
            body.reservation_id.or(body.event_id).unwrap_or_default(),
            change,
        )),
        None => Err(Failure {
            status: status.as_u16(),
            code: body
                .error
                .or(body.reason_code)
                .unwrap_or_else(|| "UNREADABLE".to_owned()),
            message: body
                .message
                .unwrap_or_else(|| String::from_utf8_lossy(text).into_owned()),
            count: 1,
        }),
    }
}
