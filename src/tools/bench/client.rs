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
use super::connection::{Connection, NoResponse};
use super::ledger::Effect;
use super::recorder::Recorder;
use super::requests::Requests;
use super::response::{self, Failure};
use crate::telemetry::error_chain;

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
    pub recorder: Mutex<Recorder>,
}

impl Shared {
    /// Changes what all clients record. They run on one thread, so the lock is always free.
    pub fn record<T>(&self, change: impl FnOnce(&mut Recorder) -> T) -> T {
        let mut recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut recorder)
    }

    fn contradict(&self, example: impl FnOnce() -> String) {
        self.record(|recorder| recorder.contradict(example));
    }
}

/// One operation of a client.
#[derive(Debug)]
struct Planned {
    operation: Operation,
    /// The estimate or the actual; a release has none.
    amount: i64,
    /// The reservation to commit or release, and its hold.
    reservation: String,
    held: i64,
}

impl Planned {
    /// Whether the service did exactly what was requested, given that budgets are ample.
    fn is_fulfilled_by(&self, effect: &Effect) -> bool {
        let (amount, held) = (self.amount, self.held);
        let expected = match self.operation {
            Operation::Reserve => (amount, 0),
            Operation::Commit => (-held, amount),
            Operation::Release => (-held, 0),
            Operation::Event => (0, amount),
            Operation::Decide => (0, 0),
        };
        (effect.reserved, effect.spent) == expected
    }
}

/// A client, and what it has in hand.
pub(super) struct Client {
    shared: Arc<Shared>,
    number: u64,
    connection: Connection,
    sequence: u64,
    /// The reservation that the next commit or release ends, and its amount.
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
            if let Some(planned) = self.plan(*operation) {
                self.perform(&planned).await;
            }
        }
    }

    fn plan(&mut self, operation: Operation) -> Option<Planned> {
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
        Some(Planned {
            operation,
            amount,
            reservation,
            held,
        })
    }

    async fn perform(&mut self, planned: &Planned) {
        let mut key = String::with_capacity(32);
        // Writing to a string cannot fail.
        let _ = write!(key, "{}.{}.{}", self.shared.run, self.number, self.sequence);
        let (amount, reservation) = (planned.amount, &planned.reservation);
        let requests = &self.shared.requests;
        let Some(request) = requests.build(planned.operation, &key, amount, reservation) else {
            let example = || format!("an id that fits no path: {reservation:?}");
            return self.shared.contradict(example);
        };
        let Some(effect) = self.complete(planned, &request).await else {
            return;
        };
        self.shared
            .record(|recorder| recorder.totals.count(&effect));
        if !planned.is_fulfilled_by(&effect) {
            let example = || format!("{planned:?}: {effect:?}");
            self.shared.contradict(example);
        }
        if planned.operation == Operation::Reserve {
            self.hold = effect.id.map(|id| (id, effect.reserved));
        }
    }

    /// Sends a request until its outcome is known; `None` when it was refused or given up.
    async fn complete(
        &mut self,
        planned: &Planned,
        request: &Request<Full<Bytes>>,
    ) -> Option<Effect> {
        let begun = Instant::now();
        let mut pause = PAUSE_MIN;
        let mut uncertain = false;
        let effect = loop {
            match self.attempt(planned, request).await {
                Ok(effect) => break effect,
                Err(failure) if !failure.uncertain => return None,
                Err(_) => uncertain = true,
            }
            if begun.elapsed() >= GIVE_UP_AFTER {
                self.shared.record(|recorder| recorder.unresolved += 1);
                return None;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        };
        let finished = Instant::now();
        let measured = finished >= self.shared.measure_from;
        let took = measured.then(|| finished - begun);
        self.shared
            .record(|recorder| recorder.finish(planned.operation, took));
        if uncertain
            && let Ok(again) = self.attempt(planned, request).await
            && again != effect
        {
            self.shared
                .contradict(|| format!("one key, two outcomes: {effect:?}, then {again:?}"));
        }
        Some(effect)
    }

    /// Sends a request once and counts the attempt and its failure.
    async fn attempt(
        &mut self,
        planned: &Planned,
        request: &Request<Full<Bytes>>,
    ) -> Result<Effect, Failure> {
        let effect = match self.connection.send(request.clone()).await {
            Ok(response) => response::read(planned.operation, planned.amount, &response),
            Err(error) => Err(no_response(&error)),
        };
        self.shared.record(|recorder| {
            recorder.attempts += 1;
            if let Err(failure) = &effect {
                recorder.fail(failure);
            }
        });
        effect
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
        message: error_chain(error),
        uncertain: true,
    }
}
