//! `bench --deliver`: how fast events get to receivers on this machine, and what that costs.
//!
//! Where throughput is measured, the events have happened before a dispatcher starts. So only their delivery is timed.

mod cost;
mod receiver;
mod report;
mod senders;

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::time::sleep;

use super::args::BenchArgs;
use super::error::BenchError;
use super::recorder::{Summary, histogram, record, summary};
use super::stack::Stack;
use crate::api::operations::OperationId;
use crate::tools::call::Call;
use crate::tools::dev::child::Process;
use receiver::{Arrival, Arrivals, Kind, Receivers};
use report::Deliveries;
use senders::Senders;

/// For which `--duration` the numbers of events below are.
const FULL: Duration = Duration::from_secs(10);
/// How long deliveries may take to arrive.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a dispatcher takes to have its leases, and to work off what is not a delivery.
const SETTLED: Duration = Duration::from_secs(3);

/// Starts a Redis, a service, receivers and dispatchers, and measures.
pub(super) async fn run(args: &BenchArgs) -> Result<Deliveries, BenchError> {
    let stack = Stack::start(args.dialect).await?;
    let admin = stack.service.admin()?;
    let rules = json!({"blocked_cidr_ranges": [], "allow_http": true});
    let rules = Call::of(OperationId::UpdateWebhookSecurityConfig).body(&rules);
    admin.send(&rules).await?;
    let mut bench = Bench {
        stack: &stack,
        receivers: Receivers::start().map_err(BenchError::Generator)?,
        time: args.load.duration,
        report: Deliveries::default(),
    };
    bench.idle().await?;
    bench.throughput().await?;
    bench.parts().await?;
    bench.latency().await?;
    bench.dead().await?;
    bench.takeovers().await?;
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
    /// So many events in a run of this length.
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

    async fn idle(&mut self) -> Result<(), BenchError> {
        let _dispatcher = self.stack.dispatcher()?;
        sleep(SETTLED).await;
        let before = self.stack.redis_cpu();
        let begun = Instant::now();
        sleep(self.time.max(Duration::from_secs(2))).await;
        let used = self.stack.redis_cpu().saturating_sub(before);
        let share = used.as_secs_f64() / begun.elapsed().as_secs_f64() * 100.0;
        self.report
            .rows
            .at_most("Redis beside an idle dispatcher", share, "% of a core", 3.0);
        Ok(())
    }

    async fn throughput(&mut self) -> Result<(), BenchError> {
        let many = self.drain((8, 8), Kind::Fast, 400).await?;
        self.report
            .rows
            .at_least("64 lanes", many.per_second, "deliveries/s", 2_000.0);
        self.report
            .rows
            .at_most("scripts of Redis", many.scripts_us, "µs per delivery", 80.0);
        self.report
            .rows
            .figure("Redis in all", many.redis_us, "µs per delivery");
        let named = self.drain((8, 8), Kind::Named, 400).await?;
        self.report.rows.at_least(
            "64 lanes, receivers by a host name",
            named.per_second,
            "deliveries/s",
            2_000.0,
        );
        let one = self.drain((1, 1), Kind::Fast, 900).await?;
        self.report
            .rows
            .at_least("one lane", one.per_second, "deliveries/s", 400.0);
        let slow = self.drain(self.thousand(), Kind::Slow, 20).await?;
        self.report.rows.at_least(
            "1,000 lanes, receivers take 50 ms",
            slow.per_second,
            "deliveries/s",
            2_000.0,
        );
        Ok(())
    }

    /// Which scripts the time of Redis goes to. Redis logs each, so nothing else is measured meanwhile.
    async fn parts(&mut self) -> Result<(), BenchError> {
        let senders = self.senders((8, 8), Kind::Fast).await?;
        let events = self.scaled(100);
        let store = &self.stack.store;
        store.log_scripts().await?;
        senders.cause(events).await?;
        let _dispatcher = self.stack.dispatcher()?;
        let deliveries = self.arrived(events * senders.lanes()).await.len();
        let scripts = self.stack.store.logged_scripts().await?;
        self.report.parts = cost::parts(scripts, deliveries);
        self.stack.store.log_no_scripts().await?;
        senders.unsubscribe().await
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

    /// Waits for so many arrivals, and counts the rest as missing.
    async fn arrived(&mut self, expected: usize) -> Vec<Arrival> {
        let begun = Instant::now();
        while self.receivers.count() < expected && begun.elapsed() < LIMIT {
            sleep(Duration::from_millis(20)).await;
        }
        let Arrivals {
            first, repeated, ..
        } = self.receivers.take();
        self.report.missing += expected.saturating_sub(first.len()) as u64;
        self.report.repeated += repeated;
        first
    }

    async fn latency(&mut self) -> Result<(), BenchError> {
        let senders = self.senders((8, 8), Kind::Fast).await?;
        let _dispatcher = self.stack.dispatcher()?;
        sleep(SETTLED).await;
        // Each event is eight deliveries: 1,000 a second.
        let events = senders.cause_for(125.0, self.time).await?;
        let arrivals = self.arrived(events * 8).await;
        let waited = waits(arrivals.iter(), self.time);
        self.report.rows.at_most(
            "event to attempt at 1,000/s, p50",
            waited.p50_us / 1e3,
            "ms",
            120.0,
        );
        self.report.rows.at_most(
            "event to attempt at 1,000/s, p99",
            waited.p99_us / 1e3,
            "ms",
            300.0,
        );
        senders.unsubscribe().await
    }

    async fn dead(&mut self) -> Result<(), BenchError> {
        let good = self.senders((1, 1), Kind::Fast).await?;
        let dispatcher = self.stack.dispatcher()?;
        sleep(SETTLED).await;
        let alone = self.beside(&good).await?;
        let before = (
            memory(&dispatcher),
            self.stack.store.statistics().await?.used_memory,
        );
        let dead = self.senders(self.thousand(), Kind::Dead).await?;
        let events = self.scaled(20);
        let (records, bytes) = cost::stored(self.stack).await?;
        dead.cause(events).await?;
        sleep(SETTLED).await;
        let (all_records, all_bytes) = cost::stored(self.stack).await?;
        let added = all_records.saturating_sub(records).max(1) as f64;
        self.report.rows.at_most(
            "Redis per pending delivery",
            all_bytes.saturating_sub(bytes) as f64 / added,
            "bytes",
            600.0,
        );
        // Each event has also its own cost; with fifty deliveries an event that is little.
        let pending = (events * dead.lanes()) as f64;
        let stored = self
            .stack
            .store
            .statistics()
            .await?
            .used_memory
            .saturating_sub(before.1);
        let attempted = self.receivers.take().first.len().max(1) as f64;
        let resident = memory(&dispatcher).zip(before.0);
        let resident = resident.map_or(0, |(now, before)| now.saturating_sub(before));
        self.report.rows.figure(
            "Redis per delivery to a dead receiver, with its event",
            stored as f64 / pending,
            "bytes",
        );
        self.report.rows.at_most(
            "dispatcher per attempt in flight",
            resident as f64 / attempted,
            "bytes",
            49_152.0,
        );
        let beside = self.beside(&good).await?;
        let ratio = beside.p99_us / alone.p99_us.max(1.0);
        self.report.rows.at_most(
            "a good receiver beside 1,000 dead ones, p99",
            ratio,
            "times alone",
            1.5,
        );
        good.unsubscribe().await?;
        dead.unsubscribe().await
    }

    /// How long the events of one subscription took, at 50 a second.
    async fn beside(&mut self, good: &Senders) -> Result<Summary, BenchError> {
        let _ = self.receivers.take();
        let events = good.cause_for(50.0, self.time).await?;
        let begun = Instant::now();
        while self.receivers.count() < events && begun.elapsed() < LIMIT {
            sleep(Duration::from_millis(20)).await;
        }
        // Dead receivers have other numbers, but for the first of them, which is retried seldom.
        let first = self.receivers.take().first;
        let of_good: Vec<_> = first.iter().filter(|arrival| arrival.number == 0).collect();
        self.report.missing += events.saturating_sub(of_good.len()) as u64;
        Ok(waits(of_good.into_iter(), self.time))
    }

    async fn takeovers(&mut self) -> Result<(), BenchError> {
        let killed = self.takeover(|dispatcher| dispatcher.kill()).await?;
        self.report.rows.at_most(
            "longest pause of a lane after kill -9",
            killed.as_secs_f64(),
            "s",
            15.0,
        );
        let stopped = self.takeover(drop).await?;
        self.report.rows.at_most(
            "longest pause of a lane after SIGTERM",
            stopped.as_secs_f64(),
            "s",
            1.0,
        );
        Ok(())
    }

    /// Ends one of two dispatchers while they deliver. Returns the longest time that a lane waited for its next event.
    async fn takeover(
        &mut self,
        end: impl FnOnce(Process) + Send + 'static,
    ) -> Result<Duration, BenchError> {
        let senders = self.senders((8, 8), Kind::Slow).await?;
        let (first, _second) = (self.stack.dispatcher()?, self.stack.dispatcher()?);
        sleep(SETTLED).await;
        let events = self.scaled(200).max(60);
        senders.cause(events).await?;
        sleep(Duration::from_secs(1)).await;
        let ended = Instant::now();
        let ending = tokio::task::spawn_blocking(move || end(first));
        let expected = events * senders.lanes();
        let begun = Instant::now();
        while self.receivers.count() < expected && begun.elapsed() < LIMIT {
            sleep(Duration::from_millis(20)).await;
        }
        ending.await.expect("ending does not panic");
        // What was in flight may arrive twice.
        let Arrivals { first, .. } = self.receivers.take();
        self.report.missing += expected.saturating_sub(first.len()) as u64;
        senders.unsubscribe().await?;
        let longest = (0..senders.lanes()).map(|lane| longest_pause(&first, lane, ended));
        Ok(longest.max().unwrap_or_default())
    }
}

/// The longest time between two events of a lane, of those that arrived after `since` and the last one before.
fn longest_pause(arrivals: &[Arrival], lane: usize, since: Instant) -> Duration {
    let of_lane = arrivals.iter().filter(|arrival| arrival.number == lane);
    let times: Vec<_> = of_lane.map(|arrival| arrival.at).collect();
    let pauses = times.windows(2).filter(|pair| pair[1] > since);
    pauses
        .map(|pair| pair[1] - pair[0])
        .max()
        .unwrap_or_default()
}

fn waits<'a>(arrivals: impl Iterator<Item = &'a Arrival>, measured: Duration) -> Summary {
    let mut waited = histogram();
    arrivals.for_each(|arrival| record(&mut waited, arrival.waited));
    summary("deliver", &waited, measured)
}

/// Resident memory of a process in bytes.
fn memory(process: &Process) -> Option<u64> {
    super::stack::resident_memory(process.id())
}
