//! One client: a connection, one request in flight, and the books of what it was told.
//!
//! An answer that is lost, or that leaves the outcome open (any 5xx), is asked for again under the same key. Then the
//! request is sent once more: two answers to one key must be the same.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::answer::{self, Failure, Outcome};
use super::args::{Operation, Workload};
use super::connection::{Connection, Lost};
use super::ledger::Sums;
use super::recorder::Recorder;
use super::requests::{Prepared, Requests};
use super::target::Target;

/// After this long without an answer that settles it, an operation is given up; its outcome stays unknown.
const GIVE_UP_AFTER: Duration = Duration::from_secs(30);

const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// What all clients of a run share.
pub(super) struct Shared {
    pub target: Arc<Target>,
    pub requests: Requests,
    pub workload: Workload,
    /// Random, and part of every idempotency key.
    pub run: String,
    /// What is finished before is warm-up.
    pub measure_from: Instant,
    /// Nothing is started after.
    pub until: Instant,
    /// Operations finished so far, for the progress line.
    pub finished: AtomicU64,
    /// Attempts failed so far, likewise.
    pub failed: AtomicU64,
}

pub(super) struct Client {
    shared: Arc<Shared>,
    number: u64,
    connection: Connection,
    recorder: Recorder,
    sums: Sums,
    key: String,
    key_stem: usize,
    sequence: u64,
    /// What the next commit or release settles.
    hold: Option<(String, i64)>,
}

impl Client {
    pub fn new(shared: Arc<Shared>, number: u16) -> Self {
        let key = format!("{}.{number}.", shared.run);
        Self {
            connection: Connection::new(Arc::clone(&shared.target)),
            number: number.into(),
            recorder: Recorder::default(),
            sums: Sums::default(),
            key_stem: key.len(),
            key,
            sequence: 0,
            hold: None,
            shared,
        }
    }

    /// Works until the time is over and the last request is answered.
    pub async fn run(mut self) -> (Recorder, Sums) {
        let steps = self.shared.workload.steps();
        // Clients start at different steps, so that a mix is mixed at any moment.
        let first = self.number as usize * 2 % steps.len();
        for step in steps.iter().cycle().skip(first) {
            if Instant::now() >= self.shared.until {
                break;
            }
            self.step(*step).await;
        }
        (self.recorder, self.sums)
    }

    async fn step(&mut self, operation: Operation) {
        let estimate = 1_000 + (self.sequence * 7_919 + self.number * 31) as i64 % 997;
        let settled = match operation {
            Operation::Commit | Operation::Release => match self.hold.take() {
                Some(hold) => hold,
                // The reserve was refused.
                None => return,
            },
            _ => (String::new(), 0),
        };
        let (reservation, held) = settled;
        let amount = match operation {
            // Now and then all of it.
            Operation::Commit => held - self.sequence as i64 % 101,
            _ => estimate,
        };
        let Some(outcome) = self.perform(operation, amount, &reservation).await else {
            return;
        };
        self.sums.book(&outcome);
        let as_asked = match &outcome {
            Outcome::Reserved {
                amount: reserved, ..
            } => *reserved == amount,
            Outcome::Committed { charged, released } => {
                *charged == amount && *released == held - amount
            }
            Outcome::Released { amount: released } => *released == held,
            Outcome::Posted { charged, .. } => *charged == amount,
            Outcome::Allowed => true,
        };
        if !as_asked {
            let example = || {
                format!(
                    "{} of {amount} with {held} held: {outcome:?}",
                    operation.as_str()
                )
            };
            self.recorder.contradict(example);
        }
        if let Outcome::Reserved {
            reservation,
            amount,
        } = outcome
        {
            self.hold = Some((reservation, amount));
        }
    }

    /// Sends one operation under a new key until its outcome is known. `None` when it was refused or given up.
    async fn perform(
        &mut self,
        operation: Operation,
        amount: i64,
        reservation: &str,
    ) -> Option<Outcome> {
        self.sequence += 1;
        self.key.truncate(self.key_stem);
        write!(self.key, "{}", self.sequence).ok()?;
        let prepared = self
            .shared
            .requests
            .prepare(operation, &self.key, amount, reservation);
        let Some(prepared) = prepared else {
            let example = || format!("a reservation id that fits no path: {reservation:?}");
            self.recorder.contradict(example);
            return None;
        };
        let begun = Instant::now();
        let mut pause = PAUSE_MIN;
        let mut uncertain = false;
        let outcome = loop {
            match self.attempt(operation, amount, &prepared).await {
                Ok(outcome) => break outcome,
                Err(failure) => {
                    let settles = !failure.uncertain;
                    self.shared.failed.fetch_add(1, Ordering::Relaxed);
                    self.recorder.fail(failure);
                    if settles {
                        return None;
                    }
                    uncertain = true;
                }
            }
            if begun.elapsed() >= GIVE_UP_AFTER {
                self.recorder.unresolved += 1;
                return None;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        };
        let finished = Instant::now();
        if finished >= self.shared.measure_from {
            self.recorder.time(operation, finished - begun);
        }
        self.shared.finished.fetch_add(1, Ordering::Relaxed);
        if uncertain {
            self.confirm(operation, amount, &prepared, &outcome).await;
        }
        Some(outcome)
    }

    async fn attempt(
        &mut self,
        operation: Operation,
        amount: i64,
        prepared: &Prepared,
    ) -> Result<Outcome, Failure> {
        self.recorder.attempts += 1;
        let request = self.shared.requests.request(prepared);
        let reply = self.connection.send(request).await.map_err(lost)?;
        answer::read(operation, amount, &reply)
    }

    async fn confirm(
        &mut self,
        operation: Operation,
        amount: i64,
        prepared: &Prepared,
        first: &Outcome,
    ) {
        match self.attempt(operation, amount, prepared).await {
            Ok(again) if again == *first => {}
            Ok(again) => {
                let example = || format!("two outcomes of one key: {first:?}, then {again:?}");
                self.recorder.contradict(example);
            }
            Err(failure) => self.recorder.fail(failure),
        }
    }
}

fn lost(lost: Lost) -> Failure {
    let code = match &lost {
        Lost::NotConnected(_) => "NOT_CONNECTED",
        Lost::Broken => "CONNECTION_LOST",
        Lost::Late => "NO_ANSWER",
    };
    let source = std::error::Error::source(&lost);
    let cause = source.map_or(String::new(), |source| format!(": {source}"));
    Failure {
        status: 0,
        code: code.to_owned(),
        message: format!("{lost}{cause}"),
        uncertain: true,
    }
}
