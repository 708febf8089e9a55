//! `bench --deliver`: how fast events get to receivers on this machine, and what that costs.
//!
//! Where throughput is measured, the events have happened before a dispatcher starts. So only their delivery is timed.

mod receivers;
mod report;
mod senders;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::BenchError;
use super::args::BenchArgs;
use super::recorder::{Summary, Times};
use super::stack::{Stack, resident_memory};
use crate::api::operations::OperationId;
use crate::store::{Store, StoreError};
use crate::tools::call::Call;
use crate::tools::dev::child::Process;
use receivers::{Arrival, DEAD, FAST, Kind, NAMED, Receivers, SLOW};
use report::Bound::{AtLeast, AtMost};
use report::Deliveries;
use senders::Senders;

/// For which `--duration` the numbers of events below are.
const FULL: Duration = Duration::from_secs(10);
/// How long a dispatcher takes to have its leases, and to work off what is not a delivery.
const SETTLED: Duration = Duration::from_secs(3);

/// Starts a Redis, a service, receivers and dispatchers, and measures.
pub(super) async fn run(args: &BenchArgs) -> Result<Deliveries, BenchError> {
    let stack = Stack::start(args.dialect).await?;
    let rules = json!({"blocked_cidr_ranges": [], "allow_http": true});
    let rules = Call::of(OperationId::UpdateWebhookSecurityConfig).body(&rules);
    stack.service.admin()?.send(&rules).await?;
    let mut bench = Bench {
        stack: &stack,
        receivers: Receivers::start().map_err(BenchError::Generator)?,
        time: args.load.duration,
        report: Deliveries::default(),
    };
    bench.idle().await?;
    bench.throughput().await?;
    bench.latency().await?;
    bench.dead().await?;
    let killed = "longest pause of a lane after kill -9";
    bench.takeover(killed, Process::kill, 15.0).await?;
    let stopped = "longest pause of a lane after SIGTERM";
    bench.takeover(stopped, drop, 1.0).await?;
    Ok(bench.report)
}

struct Bench<'a> {
    stack: &'a Stack,
    receivers: Receivers,
    time: Duration,
    report: Deliveries,
}

/// How a backlog was worked off.
struct Drained {
    per_second: f64,
    /// Time of Redis's scripts per delivery, and of its process.
    scripts_us: f64,
    redis_us: f64,
}

impl Bench<'_> {
    /// Number of events in a run of this length.
    fn scaled(&self, events: usize) -> usize {
        self.share_of(events).max(5)
    }

    fn share_of(&self, full: usize) -> usize {
        let share = self.time.as_secs_f64() / FULL.as_secs_f64();
        (full as f64 * share) as usize
    }

    /// A thousand subscriptions; fewer in a short run.
    fn thousand(&self) -> (usize, usize) {
        (self.share_of(20).clamp(1, 20), 50)
    }

    async fn senders(&self, shape: (usize, usize), kind: Kind) -> Result<Senders, BenchError> {
        Senders::make(&self.stack.service, &self.receivers, shape, kind).await
    }

    /// Waits for this many arrivals, and counts the rest as missing.
    async fn arrived(&mut self, expected: usize) -> Vec<Arrival> {
        let arrivals = self.receivers.wait_for(expected).await;
        self.report.missing += expected.saturating_sub(arrivals.first.len()) as u64;
        self.report.repeated += arrivals.repeated;
        arrivals.first
    }

    async fn idle(&mut self) -> Result<(), BenchError> {
        let _dispatcher = self.stack.dispatcher()?;
        sleep(SETTLED).await;
        let (before, begun) = (self.stack.redis_cpu(), Instant::now());
        sleep(self.time.max(Duration::from_secs(2))).await;
        let used = self.stack.redis_cpu().saturating_sub(before);
        let share = used.as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0;
        let what = "Redis beside an idle dispatcher";
        self.report.add(what, share, "% of a core", AtMost(3.0));
        Ok(())
    }

    async fn throughput(&mut self) -> Result<(), BenchError> {
        const RATE: &str = "deliveries/s";
        const COST: &str = "µs per delivery";
        let many = self.drain((8, 8), FAST, 400).await?;
        let report = &mut self.report;
        report.add("64 lanes", many.per_second, RATE, AtLeast(2_000.0));
        report.add("scripts of Redis", many.scripts_us, COST, AtMost(80.0));
        report.add("Redis in all", many.redis_us, COST, None);
        let named = self.drain((8, 8), NAMED, 400).await?.per_second;
        let what = "64 lanes, receivers by a host name";
        self.report.add(what, named, RATE, AtLeast(2_000.0));
        let one = self.drain((1, 1), FAST, 900).await?.per_second;
        self.report.add("one lane", one, RATE, AtLeast(400.0));
        let slow = self.drain(self.thousand(), SLOW, 20).await?.per_second;
        let what = "1,000 lanes, receivers take 50 ms";
        self.report.add(what, slow, RATE, AtLeast(2_000.0));
        Ok(())
    }

    /// Causes events, starts a dispatcher, and waits until all have arrived.
    async fn drain(
        &mut self,
        shape: (usize, usize),
        kind: Kind,
        events: usize,
    ) -> Result<Drained, BenchError> {
        let senders = self.senders(shape, kind).await?;
        let events = self.scaled(events);
        senders.cause(events).await?;
        self.stack.store.reset_statistics().await?;
        let before = self.stack.redis_cpu();
        let _dispatcher = self.stack.dispatcher()?;
        let arrivals = self.arrived(events * senders.lanes()).await;
        let redis = self.stack.redis_cpu().saturating_sub(before);
        let scripts = self.stack.store.statistics().await?.command("evalsha");
        senders.unsubscribe().await?;
        let count = arrivals.len().max(1) as f64;
        let times = arrivals.iter().map(|arrival| arrival.at);
        let took = times.clone().max().zip(times.min());
        let took = took.map_or(0.0, |(last, first)| (last - first).as_secs_f64());
        Ok(Drained {
            per_second: count / took.max(1e-3),
            scripts_us: scripts.us as f64 / count,
            redis_us: redis.as_secs_f64() * 1e6 / count,
        })
    }

    async fn latency(&mut self) -> Result<(), BenchError> {
        let senders = self.senders((8, 8), FAST).await?;
        let _dispatcher = self.stack.dispatcher()?;
        sleep(SETTLED).await;
        // Each event is eight deliveries: 1,000 a second.
        let events = senders.cause_for(125.0, self.time).await?;
        let arrivals = self.arrived(events * 8).await;
        let waited = self.waits(arrivals.iter());
        let (p50_ms, p99_ms) = (waited.p50_us / 1e3, waited.p99_us / 1e3);
        let report = &mut self.report;
        let what = "event to attempt at 1,000/s, p50";
        report.add(what, p50_ms, "ms", AtMost(120.0));
        let what = "event to attempt at 1,000/s, p99";
        report.add(what, p99_ms, "ms", AtMost(300.0));
        senders.unsubscribe().await
    }

    async fn dead(&mut self) -> Result<(), BenchError> {
        let good = self.senders((1, 1), FAST).await?;
        let dispatcher = self.stack.dispatcher()?;
        sleep(SETTLED).await;
        let alone = self.beside(&good).await?;
        let resident = resident_memory(&dispatcher);
        let used = self.stack.used_memory().await?;
        let dead = self.senders(self.thousand(), DEAD).await?;
        let events = self.scaled(20);
        let (records, bytes) = stored(&self.stack.store).await?;
        dead.cause(events).await?;
        sleep(SETTLED).await;
        let (all_records, all_bytes) = stored(&self.stack.store).await?;
        let records = all_records.saturating_sub(records).max(1) as f64;
        let bytes = all_bytes.saturating_sub(bytes) as f64 / records;
        // Each event has also its own cost; with fifty deliveries an event that is little.
        let pending = (events * dead.lanes()) as f64;
        let stored = self.stack.used_memory().await?.saturating_sub(used) as f64 / pending;
        let in_flight = self.receivers.wait_for(0).await.first.len().max(1) as f64;
        let resident = resident_memory(&dispatcher).zip(resident);
        let resident = resident.map_or(0, |(now, before)| now.saturating_sub(before));
        let per_attempt = resident as f64 / in_flight;
        let report = &mut self.report;
        report.add("Redis per pending delivery", bytes, "bytes", AtMost(600.0));
        let what = "Redis per delivery to a dead receiver, with its event";
        report.add(what, stored, "bytes", None);
        let what = "dispatcher per attempt in flight";
        report.add(what, per_attempt, "bytes", AtMost(49_152.0));
        let ratio = self.beside(&good).await?.p99_us / alone.p99_us.max(1.0);
        let what = "a good receiver beside 1,000 dead ones, p99";
        self.report.add(what, ratio, "times alone", AtMost(1.5));
        good.unsubscribe().await?;
        dead.unsubscribe().await
    }

    /// How long the events of one subscription took, at 50 a second.
    async fn beside(&mut self, good: &Senders) -> Result<Summary, BenchError> {
        self.receivers.wait_for(0).await;
        let events = good.cause_for(50.0, self.time).await?;
        // Dead receivers have other numbers, but for the first of them, which is retried seldom.
        let first = self.receivers.wait_for(events).await.first;
        let of_good = first.iter().filter(|arrival| arrival.number == 0);
        self.report.missing += events.saturating_sub(of_good.clone().count()) as u64;
        Ok(self.waits(of_good))
    }

    /// Ends one of two dispatchers while they deliver, and reports the longest time that a lane waited for its next event.
    async fn takeover(
        &mut self,
        what: &'static str,
        end: fn(Process),
        limit_s: f64,
    ) -> Result<(), BenchError> {
        let senders = self.senders((8, 8), SLOW).await?;
        let (first, _second) = (self.stack.dispatcher()?, self.stack.dispatcher()?);
        sleep(SETTLED).await;
        let events = self.scaled(200).max(60);
        senders.cause(events).await?;
        sleep(Duration::from_secs(1)).await;
        let ended = Instant::now();
        let ending = spawn_blocking(move || end(first));
        let expected = events * senders.lanes();
        // What was in flight may arrive twice.
        let arrivals = self.receivers.wait_for(expected).await.first;
        self.report.missing += expected.saturating_sub(arrivals.len()) as u64;
        ending.await.expect("ending does not panic");
        senders.unsubscribe().await?;
        let pauses = (0..senders.lanes()).map(|lane| longest_pause(&arrivals, lane, ended));
        let longest = pauses.max().unwrap_or_default().as_secs_f64();
        self.report.add(what, longest, "s", AtMost(limit_s));
        Ok(())
    }

    /// How long events took to arrive.
    fn waits<'a>(&self, arrivals: impl Iterator<Item = &'a Arrival>) -> Summary {
        let mut waited = Times::default();
        arrivals.for_each(|arrival| waited.record(arrival.waited));
        waited.summary("deliver", self.time)
    }
}

/// The longest time between two events of a lane, of those that arrived after `since` and the last one before.
fn longest_pause(arrivals: &[Arrival], lane: usize, since: Instant) -> Duration {
    let of_lane = arrivals.iter().filter(|arrival| arrival.number == lane);
    let times: Vec<_> = of_lane.map(|arrival| arrival.at).collect();
    let pauses = times.windows(2).filter(|pair| pair[1] > since);
    let longest = pauses.map(|pair| pair[1] - pair[0]).max();
    longest.unwrap_or_default()
}

/// How many records of deliveries there are, and the memory of these and of their lanes, lists and windows, in bytes.
async fn stored(store: &Store) -> Result<(usize, u64), StoreError> {
    let (records, mut bytes) = memory(store, "delivery:*").await?;
    for pattern in ["lane:*", "deliveries:*", "window:*"] {
        bytes += memory(store, pattern).await?.1;
    }
    Ok((records, bytes))
}

/// How many keys of partitions fit a pattern, and their memory.
async fn memory(store: &Store, pattern: &str) -> Result<(usize, u64), StoreError> {
    let pattern = format!("{}:{{???}}:{pattern}", store.keys().prefix());
    let mut usages = BTreeMap::new();
    let visit = |key: &str| {
        let mut usage = redis::cmd("MEMORY");
        usage.arg("USAGE").arg(key).arg("SAMPLES").arg(0);
        usages.insert(key.to_owned(), usage);
    };
    store.scan(&pattern, None, visit).await?;
    let usages: Vec<_> = usages.into_iter().collect();
    let mut bytes = 0;
    for some in usages.chunks(500) {
        for reply in store.send_all(some).await? {
            bytes += redis::from_redis_value::<u64>(reply).unwrap_or(0);
        }
    }
    Ok((usages.len(), bytes))
}
