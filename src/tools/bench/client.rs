//! One client: a connection, one request in flight, and the books of what it was told.
//!
//! An answer that is lost, or that leaves the outcome open (any 5xx), is asked for again under the same key. Then the
//! request is sent once more: two answers to one key must be the same.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError};
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
    pub books: Mutex<Books>,
}

/// What all clients were told. They run on one thread, so the lock is always free.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub recorder: Recorder,
    pub sums: Sums,
}

impl Shared {
    /// Enters something into the books.
    pub fn book<T>(&self, entry: impl FnOnce(&mut Books) -> T) -> T {
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        entry(&mut books)
    }

    fn contradict(&self, example: impl FnOnce() -> String) {
        self.book(|books| books.recorder.contradict(example));
    }
}

/// What is asked for.
#[derive(Debug)]
struct Order {
    operation: Operation,
    /// The estimate or the actual; a release has none.
    amount: i64,
    /// The reservation that is settled, and what it holds.
    reservation: String,
    held: i64,
}

impl Order {
    /// Whether the service did what it was asked, no more and no less: budgets are ample.
    fn is_fulfilled_by(&self, outcome: &Outcome) -> bool {
        match *outcome {
            Outcome::Reserved { amount, .. } => amount == self.amount,
            Outcome::Committed { charged, released } => {
                charged == self.amount && released == self.held - charged
            }
            Outcome::Released { amount } => amount == self.held,
            Outcome::Posted { charged, .. } => charged == self.amount,
            Outcome::Allowed => true,
        }
    }
}

pub(super) struct Client {
    shared: Arc<Shared>,
    number: u64,
    connection: Connection,
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
            key_stem: key.len(),
            key,
            sequence: 0,
            hold: None,
            shared,
        }
    }

    /// Works until the time is over and the last request is answered.
    pub async fn run(mut self) {
        let steps = self.shared.workload.steps();
        // Clients start at different steps, so that a mix is mixed at any moment.
        let first = self.number as usize * 2 % steps.len();
        for operation in steps.iter().cycle().skip(first) {
            if Instant::now() >= self.shared.until {
                break;
            }
            // Without an order the reserve before was refused; the next step is another.
            if let Some(order) = self.order(*operation) {
                self.fill(&order).await;
            }
        }
    }

    fn order(&mut self, operation: Operation) -> Option<Order> {
        self.sequence += 1;
        let settles = matches!(operation, Operation::Commit | Operation::Release);
        let (reservation, held) = match settles {
            true => self.hold.take()?,
            false => Default::default(),
        };
        let amount = match operation {
            // Now and then all of it.
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

    async fn fill(&mut self, order: &Order) {
        self.key.truncate(self.key_stem);
        // Writing to a string cannot fail.
        let _ = write!(self.key, "{}", self.sequence);
        let requests = &self.shared.requests;
        let prepared =
            requests.prepare(order.operation, &self.key, order.amount, &order.reservation);
        let Some(prepared) = prepared else {
            self.shared
                .contradict(|| format!("an id that fits no path: {:?}", order.reservation));
            return;
        };
        let Some(outcome) = self.settle(order, &prepared).await else {
            return;
        };
        self.shared.book(|books| books.sums.book(&outcome));
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

    /// Sends a request until its outcome is known. `None` when it was refused or given up.
    async fn settle(&mut self, order: &Order, prepared: &Prepared) -> Option<Outcome> {
        let begun = Instant::now();
        let mut pause = PAUSE_MIN;
        let mut uncertain = false;
        let outcome = loop {
            match self.attempt(order, prepared).await {
                Ok(outcome) => break outcome,
                Err(settled) if !settled.uncertain => return None,
                Err(_) => uncertain = true,
            }
            if begun.elapsed() >= GIVE_UP_AFTER {
                self.shared.book(|books| books.recorder.unresolved += 1);
                return None;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        };
        let finished = Instant::now();
        let measured = finished >= self.shared.measure_from;
        let took = measured.then(|| finished - begun);
        self.shared
            .book(|books| books.recorder.finish(order.operation, took));
        if uncertain
            && let Ok(again) = self.attempt(order, prepared).await
            && again != outcome
        {
            self.shared
                .contradict(|| format!("one key, two outcomes: {outcome:?}, then {again:?}"));
        }
        Some(outcome)
    }

    /// Sends a request once. A failure is in the books already.
    async fn attempt(&mut self, order: &Order, prepared: &Prepared) -> Result<Outcome, Failure> {
        let request = self.shared.requests.request(prepared);
        let answered = match self.connection.send(request).await {
            Ok(reply) => answer::read(order.operation, order.amount, &reply),
            Err(lost) => Err(failure(&lost)),
        };
        self.shared.book(|books| {
            books.recorder.attempts += 1;
            if let Err(failure) = &answered {
                books.recorder.fail(failure);
            }
        });
        answered
    }
}

fn failure(lost: &Lost) -> Failure {
    let code = match lost {
        Lost::NotConnected(_) => "NOT_CONNECTED",
        Lost::Broken => "CONNECTION_LOST",
        Lost::Late => "NO_ANSWER",
    };
    let source = std::error::Error::source(lost);
    let cause = source.map_or(String::new(), |source| format!(": {source}"));
    Failure {
        status: 0,
        code: code.to_owned(),
        message: format!("{lost}{cause}"),
        uncertain: true,
    }
}
