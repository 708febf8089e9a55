//! Runs the scripts without HTTP, as the baseline for what the service adds.
//!
//! Calls are encoded before the clock runs, and replies are decoded only up to the status word, so that the figures measure
//! Redis and not this process. The time that Redis was busy shows whether they do.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use redis::Value;
use serde::Serialize;
use tokio::task::JoinSet;

use super::error::BenchError;
use super::ledger::{Effect, Totals};
use super::load::on_one_thread;
use super::recorder::{Summary, histogram, record, summary};
use super::report::{clients, time};
use super::service::Tenant;
use super::session::{ACTUAL, ESTIMATE, HeldReservation, Session};
use super::stack::Stack;
use crate::domain::ids::IdempotencyKey;
use crate::store::{Call, Store};
use crate::tools::table::Table;

/// Calls encoded at a time, some 2 KB each. The clock stops meanwhile.
const ROUND: usize = 10_000;

/// What to call.
#[derive(Debug)]
pub(super) enum Script {
    /// `reserve.lua`, until so many holds are made or the time is over.
    Reserve {
        count: usize,
        limit: Duration,
        /// Whether evidence of each is queued. Nobody can sign it.
        attested: bool,
    },
    /// `commit.lua`, for each of these.
    Commit(Vec<HeldReservation>),
}

/// How a script is called and measured.
struct Plan {
    name: &'static str,
    /// The status word of a reply that did it.
    expected: &'static str,
    count: usize,
    limit: Duration,
    /// What one call does to each ledger.
    effect: Effect,
}

impl Script {
    fn plan(&self) -> Plan {
        let (name, expected, count, limit, reserved, spent) = match self {
            Self::Reserve { count, limit, .. } => {
                ("reserve", "reserved", *count, *limit, ESTIMATE, 0)
            }
            Self::Commit(held) => {
                let limit = Duration::MAX;
                ("commit", "committed", held.len(), limit, -ESTIMATE, ACTUAL)
            }
        };
        Plan {
            name,
            expected,
            count,
            limit,
            effect: Effect {
                id: None,
                reserved,
                spent,
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
    pub held: Vec<HeldReservation>,
    #[serde(skip)]
    pub totals: Totals,
}

/// A table of runs.
pub(super) fn table(runs: &[ScriptRun], scopes: u8) -> Table {
    let title = format!("scripts alone, {scopes} scopes");
    let mut table = Table::new(1, [&title, "per s", "p50", "p99", "in Redis", "busy"]);
    for run in runs {
        table.row([
            clients(&run.calls.operation, run.clients),
            format!("{:.0}", run.calls.per_second),
            time(run.calls.p50_us),
            time(run.calls.p99_us),
            time(run.redis_us_per_call),
            format!("{:.0} %", run.redis_busy * 100.0),
        ]);
    }
    table
}

impl Stack {
    /// Calls a script for a tenant until it is done.
    pub async fn run_script(
        &self,
        tenant: &Tenant,
        clients: u16,
        script: Script,
    ) -> Result<ScriptRun, BenchError> {
        let (mut deployment, tenant) = (self.deployment.clone(), tenant.clone());
        deployment.redis.connections = 1;
        on_one_thread(async move || {
            let session = Session::open(&deployment, &tenant).await?;
            run(&session, clients, script).await
        })
        .await
    }

    /// Reserves for `limit` with each of these numbers of clients, then commits everything with the first. Returns the runs
    /// and the memory of Redis for a committed reservation, in bytes.
    pub async fn reserve_and_commit(
        &self,
        tenant: &Tenant,
        clients: &[u16],
        limit: Duration,
    ) -> Result<(Vec<ScriptRun>, f64), BenchError> {
        let before = self.store.statistics().await?.used_memory;
        let (mut runs, mut held) = (Vec::new(), Vec::new());
        for clients in clients {
            let reserve = Script::reserve_for(limit);
            let mut reserve = self.run_script(tenant, *clients, reserve).await?;
            held.append(&mut reserve.held);
            runs.push(reserve);
        }
        let (committed, commit) = (held.len() as f64, Script::Commit(held));
        runs.push(self.run_script(tenant, clients[0], commit).await?);
        let after = self.store.statistics().await?.used_memory;
        Ok((runs, (after as f64 - before as f64) / committed))
    }
}

impl Script {
    /// Makes holds for so long.
    pub fn reserve_for(limit: Duration) -> Self {
        Self::Reserve {
            count: usize::MAX,
            limit,
            attested: false,
        }
    }
}

/// The totals of all runs.
pub(super) fn totals(runs: &[ScriptRun]) -> Totals {
    let mut totals = Totals::default();
    runs.iter().for_each(|run| totals.add(&run.totals));
    totals
}

async fn run(session: &Session, clients: u16, script: Script) -> Result<ScriptRun, BenchError> {
    let plan = script.plan();
    let key_prefix = format!("{:016x}", rand::random::<u64>());
    let encode = async |from: usize, most: usize| {
        let count = most.min(plan.count - from);
        let mut calls = Vec::with_capacity(count);
        for number in (from..).take(count) {
            calls.push(encode(session, &script, &key_prefix, number).await?);
        }
        Ok::<_, BenchError>(calls)
    };
    let (mut done, mut times, mut elapsed) = (Vec::new(), histogram(), Duration::ZERO);
    // The first call loads the script, and is not measured.
    if let Some((call, held)) = encode(0, 1).await?.pop() {
        check(&call, session.store.send(&call).await?, plan.expected)?;
        done.push(held);
        session.store.reset_statistics().await?;
        let mut encoded = 1;
        while elapsed < plan.limit {
            let calls = encode(encoded, ROUND).await?;
            if calls.is_empty() {
                break;
            }
            encoded += calls.len();
            let begun = Instant::now();
            let round = Arc::new(Round {
                expected: plan.expected,
                store: session.store.clone(),
                until: begun.checked_add(plan.limit - elapsed),
                progress: Mutex::new(Progress {
                    calls: calls.into_iter(),
                    done: mem::take(&mut done),
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
    let mut totals = Totals::default();
    totals.count_times(&plan.effect, done.len());
    Ok(ScriptRun {
        clients,
        calls: summary(plan.name, &times, elapsed),
        redis_us_per_call: redis_us / times.len().max(1) as f64,
        redis_busy: redis_us / 1e6 / elapsed.as_secs_f64().max(1e-6),
        totals,
        held: done,
    })
}

/// Encodes the call of this number, with its reservation.
async fn encode(
    session: &Session,
    script: &Script,
    key_prefix: &str,
    number: usize,
) -> Result<(Call, HeldReservation), BenchError> {
    let attested = match script {
        Script::Commit(all) => {
            let held = all[number].clone();
            return Ok((session.commit(&held), held));
        }
        Script::Reserve { attested, .. } => *attested,
    };
    let key = IdempotencyKey::parse(&format!("{key_prefix}.{number}"));
    let key = key.expect("hexadecimal digits make an idempotency key");
    let held = (session.reservation_id(&key).await?, key);
    Ok((session.reserve(&held, attested), held))
}

/// Checks that the script did what it is for.
fn check(call: &Call, reply: Value, expected: &'static str) -> Result<(), BenchError> {
    match call.word(reply)? {
        reply if reply == expected => Ok(()),
        reply => Err(BenchError::Script { expected, reply }),
    }
}

/// Encoded calls, and the clients that send them.
struct Round {
    expected: &'static str,
    store: Store,
    until: Option<Instant>,
    /// All clients run on one thread, so the lock is always free.
    progress: Mutex<Progress>,
}

struct Progress {
    calls: std::vec::IntoIter<(Call, HeldReservation)>,
    done: Vec<HeldReservation>,
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
            let Some((call, held)) = progress().calls.next() else {
                return Ok(());
            };
            let reply = self.store.send(&call).await?;
            let took = begun.elapsed();
            check(&call, reply, self.expected)?;
            let mut progress = progress();
            record(&mut progress.times, took);
            progress.done.push(held);
        }
    }
}
