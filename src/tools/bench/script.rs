//! The scripts without HTTP around them: what the service adds is measured against this.
//!
//! Calls are put together and encoded before the clock runs, and their replies are not decoded beyond the status word, so
//! that it is Redis that is measured and not this process. How busy Redis was meanwhile tells whether that came true.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use redis::Value;
use serde::Serialize;
use tokio::runtime::Builder;
use tokio::task::{JoinSet, spawn_blocking};

use super::error::BenchError;
use super::ledger::Sums;
use super::recorder::{Summary, histogram, record, summary};
use super::session::{Bare, Session};
use crate::domain::ids::{IdempotencyKey, ReservationId};
use crate::store::{Call, Line};

const ESTIMATE: i64 = 1_000;
const ACTUAL: i64 = 950;

/// Calls that are encoded at a time, some 2 KB each. The clock stops while the next ones are.
const ROUND: usize = 10_000;

/// A hold that was made, and the key under which.
pub(super) type Held = (ReservationId, IdempotencyKey);

/// Which script is called for what.
#[derive(Debug)]
pub(super) enum Script {
    /// Makes new holds for so long.
    Reserve(Duration),
    /// Makes so many new holds.
    Fill(u64),
    /// Settles these.
    Commit(Vec<Held>),
}

/// One script, called by so many clients at once over one connection.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ScriptRun {
    pub clients: u16,
    #[serde(flatten)]
    pub calls: Summary,
    /// Time that one call takes of Redis's one thread.
    pub redis_us_per_call: f64,
    /// Share of the time in which Redis ran the script. Well below what reading and writing leave of it, this
    /// process or the machine was the limit, and not Redis.
    pub redis_busy: f64,
    /// The holds that were made.
    #[serde(skip)]
    pub held: Vec<Held>,
    /// What the ledgers must show of it.
    #[serde(skip)]
    pub sums: Sums,
}

impl Bare {
    /// Calls a script until there is no more to do.
    pub async fn run(&self, clients: u16, script: Script) -> Result<ScriptRun, BenchError> {
        let bare = self.clone();
        // As the clients over HTTP: on one thread, which leaves the other cores to Redis.
        let worker = move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(BenchError::Generator)?;
            runtime.block_on(all_clients(&bare, clients, script))
        };
        let ended = spawn_blocking(worker).await;
        ended.map_err(|panic| BenchError::Generator(panic.into()))?
    }
}

async fn all_clients(bare: &Bare, clients: u16, script: Script) -> Result<ScriptRun, BenchError> {
    let mut work = Work::new(Session::open(bare).await?, script)?;
    // A call that is not counted, because it loads the script.
    let mut first = work.next_round(1, Duration::ZERO).await?;
    let line = match first.pop() {
        Some(order) => {
            let reply = work.session.store().send(&order.call).await?;
            check(&order.call, reply, work.word())?;
            let line = work.session.store().line(&order.call).await?;
            work.done.push(order.held);
            Some(line)
        }
        None => None,
    };
    work.session.store().reset_statistics().await?;
    let (mut times, mut elapsed) = (histogram(), Duration::ZERO);
    while let Some(line) = &line {
        let orders = work.next_round(ROUND, elapsed).await?;
        if orders.is_empty() {
            break;
        }
        let begun = Instant::now();
        let round = Arc::new(Round {
            word: work.word(),
            line: line.clone(),
            orders,
            taken: AtomicUsize::new(0),
            until: work
                .limit()
                .map(|limit| begun + limit.saturating_sub(elapsed)),
            times: Mutex::new(times),
        });
        let mut running = JoinSet::new();
        for _ in 0..clients {
            running.spawn(Arc::clone(&round).client());
        }
        while let Some(ended) = running.join_next().await {
            ended.map_err(|panic| BenchError::Generator(panic.into()))??;
        }
        elapsed += begun.elapsed();
        let round = Arc::into_inner(round).expect("all clients have ended");
        let taken = round.taken.into_inner();
        work.done
            .extend(round.orders.into_iter().take(taken).map(|order| order.held));
        times = round
            .times
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
    }
    let statistics = work.session.store().statistics().await?;
    let redis_us = statistics.command("evalsha").us as f64;
    let calls = times.len().max(1) as f64;
    Ok(ScriptRun {
        clients,
        calls: summary(work.name(), &times, elapsed),
        redis_us_per_call: redis_us / calls,
        redis_busy: redis_us / 1e6 / elapsed.as_secs_f64().max(1e-6),
        sums: work.sums(),
        held: match work.script {
            Script::Commit(_) => Vec::new(),
            Script::Reserve(_) | Script::Fill(_) => work.done,
        },
    })
}

/// A call and the hold that it is about.
struct Order {
    call: Call,
    held: Held,
}

/// Whether the script did what it is for.
fn check(call: &Call, reply: Value, word: &'static str) -> Result<(), BenchError> {
    match call.word(reply)? {
        answer if answer == word => Ok(()),
        answer => Err(BenchError::Script { word, answer }),
    }
}

/// What is left to do, and what was done.
struct Work {
    session: Session,
    script: Script,
    run: IdempotencyKey,
    /// Calls put together so far.
    ordered: usize,
    /// The holds of all calls that were answered.
    done: Vec<Held>,
}

impl Work {
    fn new(session: Session, script: Script) -> Result<Self, BenchError> {
        let run = IdempotencyKey::parse(&format!("{:016x}", rand::random::<u64>()));
        Ok(Self {
            session,
            script,
            run: run.ok_or(BenchError::Key)?,
            ordered: 0,
            done: Vec::new(),
        })
    }

    fn name(&self) -> &'static str {
        match self.script {
            Script::Reserve(_) | Script::Fill(_) => "reserve",
            Script::Commit(_) => "commit",
        }
    }

    /// What a reply begins with when the script did what it is for.
    fn word(&self) -> &'static str {
        match self.script {
            Script::Reserve(_) | Script::Fill(_) => "reserved",
            Script::Commit(_) => "committed",
        }
    }

    fn limit(&self) -> Option<Duration> {
        match self.script {
            Script::Reserve(limit) => Some(limit),
            Script::Fill(_) | Script::Commit(_) => None,
        }
    }

    /// What the ledgers must show of what was done.
    fn sums(&self) -> Sums {
        let calls = self.done.len() as i128;
        match self.script {
            Script::Reserve(_) | Script::Fill(_) => Sums {
                reserved: calls * i128::from(ESTIMATE),
                ..Sums::default()
            },
            Script::Commit(_) => Sums {
                charged: calls * i128::from(ACTUAL),
                released: calls * i128::from(ESTIMATE - ACTUAL),
                ..Sums::default()
            },
        }
    }

    /// The next calls, at most `most`; none when all is done.
    async fn next_round(
        &mut self,
        most: usize,
        elapsed: Duration,
    ) -> Result<Vec<Order>, BenchError> {
        let left = match &self.script {
            Script::Reserve(limit) if elapsed >= *limit => 0,
            Script::Reserve(_) => most,
            Script::Fill(count) => usize::try_from(*count).unwrap_or(usize::MAX) - self.ordered,
            Script::Commit(held) => held.len() - self.ordered,
        };
        let mut orders = Vec::with_capacity(most.min(left));
        for number in (self.ordered..).take(most.min(left)) {
            orders.push(self.order(number).await?);
        }
        self.ordered += orders.len();
        Ok(orders)
    }

    async fn order(&self, number: usize) -> Result<Order, BenchError> {
        if let Script::Commit(held) = &self.script {
            let (id, key) = held[number].clone();
            let call = self.session.commit(&id, &key, ACTUAL);
            return Ok(Order {
                call,
                held: (id, key),
            });
        }
        let key = IdempotencyKey::parse(&format!("{}.{number}", self.run.as_str()));
        let key = key.ok_or(BenchError::Key)?;
        let id = self.session.reservation_id(&key).await?;
        let call = self.session.reserve(&id, &key, ESTIMATE);
        Ok(Order {
            call,
            held: (id, key),
        })
    }
}

/// Calls that are ready to be sent, and the clients that send them.
struct Round {
    word: &'static str,
    line: Line,
    orders: Vec<Order>,
    taken: AtomicUsize,
    until: Option<Instant>,
    times: Mutex<Histogram<u32>>,
}

impl Round {
    async fn client(self: Arc<Self>) -> Result<(), BenchError> {
        loop {
            let begun = Instant::now();
            if self.until.is_some_and(|until| begun >= until) {
                return Ok(());
            }
            let next = self.taken.load(Ordering::Relaxed);
            let Some(order) = self.orders.get(next) else {
                return Ok(());
            };
            // All clients run on one thread: nobody else takes it meanwhile, and the lock is always free.
            self.taken.store(next + 1, Ordering::Relaxed);
            let reply = self.line.send(&order.call).await?;
            let took = begun.elapsed();
            record(
                &mut self.times.lock().unwrap_or_else(PoisonError::into_inner),
                took,
            );
            check(&order.call, reply, self.word)?;
        }
    }
}
