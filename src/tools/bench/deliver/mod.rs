//! `bench --deliver`: how fast events get to receivers on this machine, and what that costs.
//!
//! Where throughput is measured, the events have happened before a dispatcher starts. So only their delivery is timed.

mod receivers;
mod senders;

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::args::BenchArgs;
use super::recorder::{Summary, Times, digits};
use super::stack::{Stack, cpu_time, resident_memory};
use super::{BenchError, Report};
use crate::api::operations::OperationId;
use crate::store::{Store, StoreError};
use crate::tools::call::Call;
use crate::tools::dev::child::Process;
use crate::tools::keys::ask;
use crate::tools::table::Table;
use receivers::{Arrival, DEAD, FAST, Kind, NAMED, Receivers, SLOW};
use senders::Senders;

/// How long a dispatcher takes to have its leases, and to work off what is not a delivery.
const SETTLED: Duration = Duration::from_secs(3);

const RATE: &str = "deliveries/s";

pub(super) async fn run(args: &BenchArgs) -> Result<Report, BenchError> {
    let stack = Stack::start(args.dialect).await?;
    let rules = json!({"blocked_cidr_ranges": [], "allow_http": true});
    let rules = Call::of(OperationId::UpdateWebhookSecurityConfig).body(&rules);
    stack.service.admin.send(&rules).await?;
    let mut bench = Bench {
        stack,
        receivers: Receivers::start()?,
        time: args.duration,
        table: Table::new(1, ["what", "figure", "unit", "bound", "kept"]),
        rows: Vec::new(),
        is_well: true,
        missing: 0,
        repeated: 0,
    };
    bench.idle().await?;
    bench.throughput().await?;
    bench.latency().await?;
    bench.dead().await?;
    let killed = "longest pause of a lane after kill -9";
    bench.takeover(killed, Process::kill, 15.0).await?;
    let stopped = "longest pause of a lane after SIGTERM";
    bench.takeover(stopped, drop, 1.0).await?;
    let (missing, repeated, table) = (bench.missing, bench.repeated, bench.table);
    Ok(Report {
        is_well: bench.is_well && missing + repeated == 0,
        json: json!({"rows": bench.rows, "missing": missing, "repeated": repeated}),
        text: format!("{table}\n{missing} deliveries did not arrive, {repeated} arrived twice\n"),
    })
}

struct Bench {
    stack: Stack,
    receivers: Receivers,
    time: Duration,
    table: Table,
    rows: Vec<Value>,
    /// Whether every figure is within its bound.
    is_well: bool,
    /// Deliveries that did not arrive in time.
    missing: usize,
    /// Requests for an event that had arrived before, where nothing was killed.
    repeated: usize,
}

impl Bench {
    /// Prints a figure for those who wait, and adds it to the report. The bound is a minimum of throughput, or else a maximum.
    fn add(&mut self, what: &str, value: f64, unit: &str, bound: f64) {
        let (sign, is_within_bound) = match unit {
            RATE => ("≥", value >= bound),
            _ => ("≤", value <= bound),
        };
        let (figure, bound) = (digits(value), format!("{sign} {bound}"));
        eprintln!("{what}: {figure} {unit}");
        let kept = if is_within_bound { "yes" } else { "NO" };
        let cells = [what, &figure, unit, &bound, kept];
        self.table.row(cells.map(str::to_owned));
        self.rows.push(json!({
            "what": what, "value": value, "unit": unit, "bound": bound, "is_within_bound": is_within_bound,
        }));
        self.is_well &= is_within_bound;
    }

    /// A number for a run of this length, where one of 10 seconds has `full`.
    fn scaled(&self, full: usize, least: usize) -> usize {
        least.max((full as f64 * self.time.as_secs_f64() / 10.0) as usize)
    }

    /// A thousand subscriptions; fewer in a short run.
    fn thousand(&self) -> (usize, usize) {
        (self.scaled(20, 1).min(20), 50)
    }

    /// Waits for this many arrivals, and counts the rest as missing.
    async fn arrived(&mut self, expected: usize) -> Vec<Arrival> {
        let arrivals = self.receivers.wait_for(expected).await;
        self.missing += expected.saturating_sub(arrivals.first.len());
        self.repeated += arrivals.repeated;
        arrivals.first
    }

    async fn idle(&mut self) -> Result<(), BenchError> {
        let _dispatcher = self.stack.dispatcher()?;
        sleep(SETTLED).await;
        let redis = self.stack.redis.id().to_string();
        let used = || cpu_time(&redis).unwrap_or_default();
        let (before, begun) = (used(), Instant::now());
        sleep(self.time.max(Duration::from_secs(2))).await;
        let used = used().saturating_sub(before).as_secs_f64();
        let share = used / begun.elapsed().as_secs_f64() * 100.0;
        let what = "Redis beside an idle dispatcher";
        self.add(what, share, "% of a core", 3.0);
        Ok(())
    }

    async fn throughput(&mut self) -> Result<(), BenchError> {
        let scripts_us = self.drain("64 lanes", (8, 8), FAST, 400, 2_000.0).await?;
        self.add("scripts of Redis", scripts_us, "µs per delivery", 80.0);
        let what = "64 lanes, receivers by a host name";
        self.drain(what, (8, 8), NAMED, 400, 2_000.0).await?;
        self.drain("one lane", (1, 1), FAST, 900, 400.0).await?;
        let what = "1,000 lanes, receivers take 50 ms";
        self.drain(what, self.thousand(), SLOW, 20, 2_000.0).await?;
        Ok(())
    }

    /// Causes events of each tenant, starts a dispatcher, and measures until all have arrived. Returns the time of Redis's
    /// scripts for each delivery in microseconds.
    async fn drain(
        &mut self,
        what: &str,
        shape: (usize, usize),
        kind: Kind,
        events: usize,
        least: f64,
    ) -> Result<f64, BenchError> {
        let senders = Senders::make(self, shape, kind).await?;
        let events = self.scaled(events, 5) * shape.0;
        senders.cause(events, f64::INFINITY).await?;
        self.stack.store.reset_statistics().await?;
        let _dispatcher = self.stack.dispatcher()?;
        let arrivals = self.arrived(events * shape.1).await;
        let scripts = self.stack.store.statistics().await?.command("evalsha");
        senders.unsubscribe().await?;
        let count = arrivals.len().max(1) as f64;
        let times = arrivals.iter().map(|arrival| arrival.at);
        let took = times.clone().max().zip(times.min());
        let took = took.map_or(0.0, |(last, first)| (last - first).as_secs_f64());
        self.add(what, count / took.max(1e-3), RATE, least);
        Ok(scripts.us as f64 / count)
    }

    async fn latency(&mut self) -> Result<(), BenchError> {
        let senders = Senders::make(self, (8, 8), FAST).await?;
        let _dispatcher = self.stack.dispatcher()?;
        sleep(SETTLED).await;
        // Each event is eight deliveries: 1,000 a second.
        let events = self.scaled(1_250, 5);
        senders.cause(events, 125.0).await?;
        let arrivals = self.arrived(events * 8).await;
        let waited = self.waits(arrivals.iter());
        let (p50_ms, p99_ms) = (waited.p50_us / 1e3, waited.p99_us / 1e3);
        self.add("event to attempt at 1,000/s, p50", p50_ms, "ms", 120.0);
        self.add("event to attempt at 1,000/s, p99", p99_ms, "ms", 300.0);
        senders.unsubscribe().await
    }

    async fn dead(&mut self) -> Result<(), BenchError> {
        let good = Senders::make(self, (1, 1), FAST).await?;
        let dispatcher = self.stack.dispatcher()?;
        sleep(SETTLED).await;
        let alone = self.beside(&good).await?;
        let resident_before = resident_memory(&dispatcher);
        let shape = self.thousand();
        let dead = Senders::make(self, shape, DEAD).await?;
        let (records_before, bytes_before) = stored(&self.stack.store).await?;
        let events = self.scaled(20, 5) * shape.0;
        dead.cause(events, f64::INFINITY).await?;
        sleep(SETTLED).await;
        let (records, bytes) = stored(&self.stack.store).await?;
        let records = records.saturating_sub(records_before).max(1) as f64;
        let per_record = (bytes - bytes_before) as f64 / records;
        self.add("Redis per pending delivery", per_record, "bytes", 600.0);
        let in_flight = self.receivers.wait_for(0).await.first.len().max(1) as f64;
        let resident = resident_memory(&dispatcher).zip(resident_before);
        let growth = resident.map_or(0, |(now, before)| now.saturating_sub(before));
        let what = "dispatcher per attempt in flight";
        self.add(what, growth as f64 / in_flight, "bytes", 49_152.0);
        let ratio = self.beside(&good).await?.p99_us / alone.p99_us.max(1.0);
        let what = "a good receiver beside 1,000 dead ones, p99";
        self.add(what, ratio, "times alone", 1.5);
        good.unsubscribe().await?;
        dead.unsubscribe().await
    }

    /// How long the events of one subscription took, at 50 a second.
    async fn beside(&mut self, good: &Senders) -> Result<Summary, BenchError> {
        self.receivers.wait_for(0).await;
        let events = self.scaled(500, 5);
        good.cause(events, 50.0).await?;
        // Dead receivers have other numbers, but for the first of them, which is retried seldom.
        let first = self.receivers.wait_for(events).await.first;
        let of_good = first.iter().filter(|arrival| arrival.number == 0);
        self.missing += events.saturating_sub(of_good.clone().count());
        Ok(self.waits(of_good))
    }

    /// Ends one of two dispatchers while they deliver, and reports the longest time that a lane waited for its next event.
    async fn takeover(
        &mut self,
        what: &str,
        end: fn(Process),
        limit_s: f64,
    ) -> Result<(), BenchError> {
        let senders = Senders::make(self, (8, 8), SLOW).await?;
        let (first, _second) = (self.stack.dispatcher()?, self.stack.dispatcher()?);
        sleep(SETTLED).await;
        let events = self.scaled(200, 60) * 8;
        senders.cause(events, f64::INFINITY).await?;
        sleep(Duration::from_secs(1)).await;
        let ended = Instant::now();
        let ending = spawn_blocking(move || end(first));
        let expected = events * 8;
        // What was in flight may arrive twice.
        let arrivals = self.receivers.wait_for(expected).await.first;
        self.missing += expected.saturating_sub(arrivals.len());
        ending.await.expect("ending does not panic");
        senders.unsubscribe().await?;
        let (mut last, mut longest) = (HashMap::new(), Duration::ZERO);
        for Arrival { number, at, .. } in arrivals {
            let before = last.insert(number, at).unwrap_or(at);
            if at > ended {
                longest = longest.max(at - before);
            }
        }
        self.add(what, longest.as_secs_f64(), "s", limit_s);
        Ok(())
    }

    fn waits<'a>(&self, arrivals: impl Iterator<Item = &'a Arrival>) -> Summary {
        let mut waited = Times::default();
        arrivals.for_each(|arrival| waited.record(arrival.waited));
        waited.summary("deliver", self.time)
    }
}

/// How many records of deliveries there are, and the memory of these and of their lanes, lists and windows, in bytes.
async fn stored(store: &Store) -> Result<(usize, i64), StoreError> {
    let mut keys = BTreeSet::new();
    for kind in ["delivery", "lane", "deliveries", "window"] {
        let pattern = format!("{}:{{???}}:{kind}:*", store.keys().prefix());
        let visit = |key: &str| keys.extend([key.to_owned()]);
        store.scan(&pattern, None, visit).await?;
    }
    let records = keys.iter().filter(|key| key.contains("}:delivery:"));
    let (records, mut bytes) = (records.count(), 0);
    let keys: Vec<_> = keys.into_iter().collect();
    for keys in keys.chunks(500) {
        let usages: Vec<i64> = ask(store, keys, |_| &["MEMORY", "USAGE"]).await?;
        bytes += usages.iter().sum::<i64>();
    }
    Ok((records, bytes))
}
