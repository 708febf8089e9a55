//! One client: a connection with one request in flight.
//!
//! When a response is lost or leaves the outcome open (any 5xx), the client repeats the request under the same key. Then it
//! sends the request once more, because two responses to one key must be the same.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use tokio::time::sleep;

use super::args::{Operation, Workload};
use super::ledger::Totals;
use super::recorder::Recorder;
use super::requests::Requests;
use super::response::{self, Failure, Outcome};
use crate::tools::http::{Connection, NoResponse};

/// After this long without a known outcome, an operation is given up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(30);

const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// What all clients of a run share.
pub(super) struct Shared {
    pub requests: Requests,
    pub workload: Workload,
    /// A random part of every idempotency key.
    pub run: String,
    /// Operations that finish before are warm-up.
    pub measure_from: Instant,
    /// No operation starts after this.
    pub until: Instant,
    pub results: Mutex<Results>,
}

/// What all clients measured. They run on one thread, so the lock is always free.
#[derive(Debug, Default)]
pub(super) struct Results {
    pub recorder: Recorder,
    pub totals: Totals,
}

impl Shared {
    /// Changes the results.
    pub fn record<T>(&self, change: impl FnOnce(&mut Results) -> T) -> T {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut results)
    }

    fn contradict(&self, example: impl FnOnce() -> String) {
        self.record(|results| results.recorder.contradict(example));
    }
}

/// An operation to perform.
#[derive(Debug)]
struct Order {
    operation: Operation,
    /// The estimate or the actual; a release has none.
    amount: i64,
    /// The reservation to commit or release, and its hold.
    reservation: String,
    held: i64,
}

impl Order {
    /// Whether the service did exactly what was requested, given that budgets are ample.
    fn is_fulfilled_by(&self, outcome: &Outcome) -> bool {
        match *outcome {
            Outcome::Reserved { amount, .. } => amount == self.amount,
            Outcome::Committed { charged, released } => {
                charged == self.amount && released == self.held - charged
            }
            Outcome::Released { amount } => amount == self.held,
            Outcome::Charged { amount, .. } => amount == self.amount,
            Outcome::Allowed => true,
        }
    }
}

pub(super) struct Client {
    shared: Arc<Shared>,
    number: u64,
    connection: Connection,
    sequence: u64,
    /// What the next commit or release finishes.
    hold: Option<(String, i64)>,
}

impl Client {
    pub fn new(shared: Arc<Shared>, number: u16) -> Self {
        Self {
            connection: Connection::new(Arc::clone(&shared.requests.url)),
            number: number.into(),
            sequence: 0,
            hold: None,
            shared,
        }
    }

    /// Works until the time is over and the last request has its response.
    pub async fn run(mut self) {
        let steps = self.shared.workload.steps();
        // Clients start at different steps, so that a mix is mixed at any moment.
        let first = self.number as usize * 2 % steps.len();
        for operation in steps.iter().cycle().skip(first) {
            if Instant::now() >= self.shared.until {
                break;
            }
            // A commit or release has nothing to do when the reserve before it was refused.
            if let Some(order) = self.order(*operation) {
                self.perform(&order).await;
            }
        }
    }

    fn order(&mut self, operation: Operation) -> Option<Order> {
        self.sequence += 1;
        let (reservation, held) = match operation {
            Operation::Commit | Operation::Release => self.hold.take()?,
            _ => Default::default(),
        };
        let amount = match operation {
            // Sometimes the whole hold.
            Operation::Commit => held - self.sequence as i64 % 101,
            _ => 1_000 + (self.sequence * 7_919 + self.number * 31) as i64 % 997,
        };
        Some(Order {
            operation,
            amount,
            reservation,
            held,
        })
    }

    async fn perform(&mut self, order: &Order) {
        let mut key = String::with_capacity(32);
        // Writing to a string cannot fail.
        let _ = write!(key, "{}.{}.{}", self.shared.run, self.number, self.sequence);
        let requests = &self.shared.requests;
        let request = requests.build(order.operation, &key, order.amount, &order.reservation);
        let Some(request) = request else {
            self.shared
                .contradict(|| format!("an id that fits no path: {:?}", order.reservation));
            return;
        };
        let Some(outcome) = self.complete(order, &request).await else {
            return;
        };
        self.shared.record(|results| results.totals.count(&outcome));
        if !order.is_fulfilled_by(&outcome) {
            self.shared.contradict(|| format!("{order:?}: {outcome:?}"));
        }
        if let Outcome::Reserved {
            reservation,
            amount,
        } = outcome
        {
            self.hold = Some((reservation, amount));
        }
    }

    /// Sends a request until its outcome is known; `None` when it was refused or given up.
    async fn complete(&mut self, order: &Order, request: &Request<Full<Bytes>>) -> Option<Outcome> {
        let begun = Instant::now();
        let mut pause = PAUSE_MIN;
        let mut uncertain = false;
        let outcome = loop {
            match self.attempt(order, request).await {
                Ok(outcome) => break outcome,
                Err(failure) if !failure.uncertain => return None,
                Err(_) => uncertain = true,
            }
            if begun.elapsed() >= GIVE_UP_AFTER {
                self.shared
                    .record(|results| results.recorder.unresolved += 1);
                return None;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        };
        let finished = Instant::now();
        let measured = finished >= self.shared.measure_from;
        let took = measured.then(|| finished - begun);
        self.shared
            .record(|results| results.recorder.finish(order.operation, took));
        if uncertain
            && let Ok(again) = self.attempt(order, request).await
            && again != outcome
        {
            self.shared
                .contradict(|| format!("one key, two outcomes: {outcome:?}, then {again:?}"));
        }
        Some(outcome)
    }

    /// Sends a request once and counts the attempt and its failure.
    async fn attempt(
        &mut self,
        order: &Order,
        request: &Request<Full<Bytes>>,
    ) -> Result<Outcome, Failure> {
        let outcome = match self.connection.send(request.clone()).await {
            Ok(response) => response::read(order.operation, order.amount, &response),
            Err(error) => Err(no_response(&error)),
        };
        self.shared.record(|results| {
            results.recorder.attempts += 1;
            if let Err(failure) = &outcome {
                results.recorder.fail(failure);
            }
        });
        outcome
    }
}

fn no_response(error: &NoResponse) -> Failure {
    let code = match error {
        NoResponse::NotConnected(_) => "NOT_CONNECTED",
        NoResponse::Broken => "CONNECTION_LOST",
        NoResponse::Late => "NO_RESPONSE",
    };
    Failure {
        status: 0,
        code: code.to_owned(),
        message: super::with_causes(error),
        uncertain: true,
    }
}
