//! Runs the scripts without HTTP, as the baseline for what the service adds.
//!
//! Calls are encoded before the clock runs, and replies are decoded only up to the status word, so that the figures measure
//! Redis and not this process. The time that Redis was busy shows whether they do.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use redis::Value;
use serde::Serialize;
use tokio::task::JoinSet;

use super::error::BenchError;
use super::ledger::Totals;
use super::load::on_one_thread;
use super::recorder::{Summary, histogram, record, summary};
use super::report::{clients, time};
use super::service::Tenant;
use super::session::{ACTUAL, Deployment, ESTIMATE, Held, Session};
use crate::domain::ids::IdempotencyKey;
use crate::store::{Call, Line};

/// Calls encoded at a time, some 2 KB each. The clock stops meanwhile.
const ROUND: usize = 10_000;

/// What to call.
#[derive(Debug)]
pub(super) enum Script {
    /// `reserve.lua`, until so many holds are made or the time is over.
    Reserve {
        /// How many at most.
        count: usize,
        /// How long at most.
        limit: Duration,
    },
    /// `commit.lua`, for each of these.
    Commit(Vec<Held>),
}

impl Script {
    /// Makes holds for so long.
    pub fn reserve_for(limit: Duration) -> Self {
        let count = usize::MAX;
        Self::Reserve { count, limit }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Reserve { .. } => "reserve",
            Self::Commit(_) => "commit",
        }
    }

    /// The status word of a reply that did it.
    fn expected(&self) -> &'static str {
        match self {
            Self::Reserve { .. } => "reserved",
            Self::Commit(_) => "committed",
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::Reserve { count, .. } => *count,
            Self::Commit(held) => held.len(),
        }
    }

    fn limit(&self) -> Duration {
        match self {
            Self::Reserve { limit, .. } => *limit,
            Self::Commit(_) => Duration::MAX,
        }
    }

    /// The totals of so many calls.
    fn totals(&self, calls: usize) -> Totals {
        let calls = calls as i128;
        match self {
            Self::Reserve { .. } => Totals {
                reserved: calls * i128::from(ESTIMATE),
                ..Totals::default()
            },
            Self::Commit(_) => Totals {
                charged: calls * i128::from(ACTUAL),
                released: calls * i128::from(ESTIMATE - ACTUAL),
                ..Totals::default()
            },
        }
    }
}

/// One script, called by so many clients at once over one connection.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ScriptRun {
    pub clients: u16,
    #[serde(flatten)]
    pub calls: Summary,
    /// Time that one call takes of Redis's one thread.
    pub redis_us_per_call: f64,
    /// Share of the time in which Redis ran the script. When it is far below 1, this process or the machine was the limit.
    pub redis_busy: f64,
    /// The reservations of all calls.
    #[serde(skip)]
    pub held: Vec<Held>,
    #[serde(skip)]
    pub totals: Totals,
}

/// The columns of [`ScriptRun::cells`].
pub(super) const COLUMNS: [&str; 5] = ["per s", "p50", "p99", "in Redis", "busy"];

impl ScriptRun {
    pub fn name(&self) -> String {
        clients(self.calls.operation, self.clients)
    }

    pub fn cells(&self) -> [String; 5] {
        [
            format!("{:.0}", self.calls.per_second),
            time(self.calls.p50_us),
            time(self.calls.p99_us),
            time(self.redis_us_per_call),
            format!("{:.0} %", self.redis_busy * 100.0),
        ]
    }
}

/// The scripts, called for one tenant.
#[derive(Debug, Clone)]
pub(super) struct Scripts {
    pub deployment: Deployment,
    pub tenant: Tenant,
}

impl Scripts {
    /// Calls a script until it is done.
    pub async fn run(&self, clients: u16, script: Script) -> Result<ScriptRun, BenchError> {
        let scripts = self.clone();
        on_one_thread(async move || {
            let session = Session::open(&scripts.deployment, &scripts.tenant).await?;
            run(&session, clients, script).await
        })
        .await
    }
}

async fn run(session: &Session, clients: u16, script: Script) -> Result<ScriptRun, BenchError> {
    let mut orders = Orders::new(session, &script);
    let (mut done, mut times, mut elapsed) = (Vec::new(), histogram(), Duration::ZERO);
    // The first call loads the script, and is not measured.
    if let Some(first) = orders.next_round(1).await?.pop() {
        let reply = session.store.send(&first.call).await?;
        check(&first.call, reply, script.expected())?;
        let line = session.store.line(&first.call).await?;
        done.push(first.held);
        session.store.reset_statistics().await?;
        while elapsed < script.limit() {
            let round = orders.next_round(ROUND).await?;
            if round.is_empty() {
                break;
            }
            let begun = Instant::now();
            let round = Arc::new(Round {
                expected: script.expected(),
                line: line.clone(),
                until: begun.checked_add(script.limit() - elapsed),
                progress: Mutex::new(Progress {
                    orders: round.into_iter(),
                    done,
                    times,
                }),
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
            let progress = round.progress.into_inner();
            let progress = progress.unwrap_or_else(PoisonError::into_inner);
            (done, times) = (progress.done, progress.times);
        }
    }
    let statistics = session.store.statistics().await?;
    let redis_us = statistics.command("evalsha").us as f64;
    Ok(ScriptRun {
        clients,
        calls: summary(script.name(), &times, elapsed),
        redis_us_per_call: redis_us / times.len().max(1) as f64,
        redis_busy: redis_us / 1e6 / elapsed.as_secs_f64().max(1e-6),
        totals: script.totals(done.len()),
        held: done,
    })
}

/// An encoded call and its reservation.
struct Order {
    call: Call,
    held: Held,
}

/// Whether the script did what it is for.
fn check(call: &Call, reply: Value, expected: &'static str) -> Result<(), BenchError> {
    match call.word(reply)? {
        reply if reply == expected => Ok(()),
        reply => Err(BenchError::Script { expected, reply }),
    }
}

/// Encodes the calls of a script.
struct Orders<'a> {
    session: &'a Session,
    script: &'a Script,
    /// A random part of every idempotency key.
    run: String,
    encoded: usize,
}

impl<'a> Orders<'a> {
    fn new(session: &'a Session, script: &'a Script) -> Self {
        Self {
            session,
            script,
            run: format!("{:016x}", rand::random::<u64>()),
            encoded: 0,
        }
    }

    /// The next calls, at most `most`.
    async fn next_round(&mut self, most: usize) -> Result<Vec<Order>, BenchError> {
        let count = most.min(self.script.count() - self.encoded);
        let mut orders = Vec::with_capacity(count);
        for number in (self.encoded..).take(count) {
            orders.push(self.order(number).await?);
        }
        self.encoded += count;
        Ok(orders)
    }

    async fn order(&self, number: usize) -> Result<Order, BenchError> {
        let session = self.session;
        let (held, call) = match self.script {
            Script::Commit(all) => {
                let held = all[number].clone();
                let call = session.commit(&held);
                (held, call)
            }
            Script::Reserve { .. } => {
                let key = IdempotencyKey::parse(&format!("{}.{number}", self.run));
                let key = key.ok_or(BenchError::Key)?;
                let held = (session.reservation_id(&key).await?, key);
                let call = session.reserve(&held);
                (held, call)
            }
        };
        Ok(Order { call, held })
    }
}

/// Encoded calls, and the clients that send them.
struct Round {
    expected: &'static str,
    line: Line,
    until: Option<Instant>,
    /// All clients run on one thread, so the lock is always free.
    progress: Mutex<Progress>,
}

struct Progress {
    orders: std::vec::IntoIter<Order>,
    done: Vec<Held>,
    times: Histogram<u32>,
}

impl Round {
    async fn client(self: Arc<Self>) -> Result<(), BenchError> {
        let progress = || self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let begun = Instant::now();
            if self.until.is_some_and(|until| begun >= until) {
                return Ok(());
            }
            let Some(Order { call, held }) = progress().orders.next() else {
                return Ok(());
            };
            let reply = self.line.send(&call).await?;
            let took = begun.elapsed();
            check(&call, reply, self.expected)?;
            let mut progress = progress();
            record(&mut progress.times, took);
            progress.done.push(held);
        }
    }
}
