//! The scripts without HTTP around them: what the service adds is measured against this.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::runtime::Builder;
use tokio::task::{JoinSet, spawn_blocking};

use super::error::BenchError;
use super::recorder::{Summary, histogram, record, summary};
use super::session::{Bare, Session};
use crate::domain::ids::{IdempotencyKey, ReservationId};
use crate::store::Statistics;

const ESTIMATE: i64 = 1_000;
const ACTUAL: i64 = 950;

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

/// One script, called by so many clients at once over the connections of one replica.
#[derive(Debug, Clone, Serialize)]
pub(super) struct ScriptRun {
    pub clients: u16,
    #[serde(flatten)]
    pub calls: Summary,
    /// Time that one call takes of Redis's one thread.
    pub redis_us_per_call: f64,
    /// Commands that were sent for one call.
    pub round_trips: f64,
    /// The holds that were made.
    #[serde(skip)]
    pub held: Vec<Held>,
}

/// What Redis counts of commands that only a client sends.
pub(super) fn round_trips(statistics: &Statistics) -> u64 {
    let names = ["evalsha", "eval", "script|load"];
    let calls = |name| statistics.command(name).calls;
    names.into_iter().map(calls).sum()
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
    let session = Session::open(bare).await?;
    // A call that is not counted, because it loads the script.
    let key = IdempotencyKey::parse(&format!("{:016x}", rand::random::<u64>()));
    let first = Work::new(script, key.ok_or(BenchError::Key)?);
    first.step(&session).await?;
    let work = Arc::new(first);
    lock(&work.times, |times| times.reset());
    session.store().reset_statistics().await?;

    let (session, begun) = (Arc::new(session), Instant::now());
    let mut running = JoinSet::new();
    for _ in 0..clients {
        let (work, session) = (Arc::clone(&work), Arc::clone(&session));
        running.spawn(async move {
            while work.step(&session).await? {}
            Ok::<_, BenchError>(())
        });
    }
    while let Some(ended) = running.join_next().await {
        ended.map_err(|panic| BenchError::Generator(panic.into()))??;
    }
    let elapsed = begun.elapsed();
    let statistics = session.store().statistics().await?;
    let times = lock(&work.times, |times| times.clone());
    let calls = times.len().max(1) as f64;
    Ok(ScriptRun {
        clients,
        calls: summary(work.name(), &times, elapsed),
        redis_us_per_call: statistics.command("evalsha").us as f64 / calls,
        round_trips: round_trips(&statistics) as f64 / calls,
        held: lock(&work.held, std::mem::take),
    })
}

/// What is left to do, and what was done.
struct Work {
    script: Script,
    run: IdempotencyKey,
    begun: Instant,
    /// Steps begun.
    steps: Mutex<u64>,
    held: Mutex<Vec<Held>>,
    times: Mutex<Histogram<u32>>,
}

impl Work {
    fn new(script: Script, run: IdempotencyKey) -> Self {
        Self {
            script,
            run,
            begun: Instant::now(),
            steps: Mutex::new(0),
            held: Mutex::default(),
            times: Mutex::new(histogram()),
        }
    }

    fn name(&self) -> &'static str {
        match self.script {
            Script::Reserve(_) | Script::Fill(_) => "reserve",
            Script::Commit(_) => "commit",
        }
    }

    /// Makes the next call; `false` when there is none to make.
    async fn step(&self, session: &Session) -> Result<bool, BenchError> {
        let step = lock(&self.steps, |steps| {
            *steps += 1;
            *steps - 1
        });
        let over = match &self.script {
            Script::Reserve(duration) => self.begun.elapsed() >= *duration,
            Script::Fill(count) => step >= *count,
            Script::Commit(held) => {
                let Some((id, key)) = held.get(step as usize) else {
                    return Ok(false);
                };
                let begun = Instant::now();
                session.commit(id, key, ACTUAL).await?;
                self.note(begun);
                return Ok(true);
            }
        };
        if over {
            return Ok(false);
        }
        let key = IdempotencyKey::parse(&format!("{}.{step}", self.run.as_str()));
        let key = key.ok_or(BenchError::Key)?;
        let id = session.reservation_id(&key).await?;
        let begun = Instant::now();
        session.reserve(&id, &key, ESTIMATE).await?;
        self.note(begun);
        lock(&self.held, |held| held.push((id, key)));
        Ok(true)
    }

    fn note(&self, begun: Instant) {
        let took = begun.elapsed();
        lock(&self.times, |times| record(times, took));
    }
}

/// All clients run on one thread, so the lock is always free.
fn lock<T, R>(value: &Mutex<T>, with: impl FnOnce(&mut T) -> R) -> R {
    with(&mut value.lock().unwrap_or_else(PoisonError::into_inner))
}
