//! `bench --deliver`: how fast events get to receivers on this machine, and what that costs.
//!
//! Where throughput is measured, the events have happened before a dispatcher starts. So only their delivery is timed.

mod receivers;
mod senders;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
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

/// For which `--duration` the numbers of events below are.
const FULL: Duration = Duration::from_secs(10);
/// How long a dispatcher takes to have its leases, and to work off what is not a delivery.
const SETTLED: Duration = Duration::from_secs(3);

/// Starts a Redis, a service, receivers and dispatchers, and measures.
pub(super) async fn run(args: &BenchArgs) -> Result<Report, BenchError> {
    let stack = Stack::start(args.dialect).await?;
    let rules = json!({"blocked_cidr_ranges": [], "allow_http": true});
    let rules = Call::of(OperationId::UpdateWebhookSecurityConfig).body(&rules);
    stack.service.admin()?.send(&rules).await?;
    let mut bench = Bench {
        stack: &stack,
        receivers: Receivers::start().map_err(BenchError::Generator)?,
        time: args.load.duration,
        figures: Vec::new(),
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
    Ok(bench.report())
}

struct Bench<'a> {
    stack: &'a Stack,
    receivers: Receivers,
    time: Duration,
    figures: Vec<Figure>,
    /// Deliveries that did not arrive in time.
    missing: usize,
    /// Requests for an event that had arrived before, where nothing was killed.
    repeated: usize,
}

/// A measured value, and its bound.
#[derive(Serialize)]
struct Figure {
    what: &'static str,
    value: f64,
    unit: &'static str,
    bound: String,
    is_within_bound: bool,
}

impl Bench<'_> {
    fn at_least(&mut self, least: f64, what: &'static str, value: f64, unit: &'static str) {
        self.add(what, value, unit, format!("≥ {least}"), value >= least);
    }

    fn at_most(&mut self, most: f64, what: &'static str, value: f64, unit: &'static str) {
        self.add(what, value, unit, format!("≤ {most}"), value <= most);
    }

    /// Prints a figure for those who wait, and adds it to the report.
    fn add(
        &mut self,
        what: &'static str,
        value: f64,
        unit: &'static str,
        bound: String,
        is_within_bound: bool,
    ) {
        eprintln!("{what}: {} {unit}", digits(value));
        self.figures.push(Figure {
            what,
            value,
            unit,
            bound,
            is_within_bound,
        });
    }

    fn report(self) -> Report {
        let mut table = Table::new(1, ["what", "figure", "unit", "bound", "kept"]);
        for figure in &self.figures {
            let value = digits(figure.value);
            let kept = ["NO", "yes"][usize::from(figure.is_within_bound)];
            let cells = [figure.what, &value, figure.unit, &figure.bound, kept];
            table.row(cells.map(str::to_owned));
        }
        let (missing, repeated) = (self.missing, self.repeated);
        let mut figures = self.figures.iter();
        Report {
            is_well: missing + repeated == 0 && figures.all(|figure| figure.is_within_bound),
            json: json!({"rows": self.figures, "missing": missing, "repeated": repeated}),
            text: format!(
                "{table}\n{missing} deliveries did not arrive, {repeated} arrived twice\n"
            ),
        }
    }

    /// A number for a run of this length, where a full one has `full`.
    fn scaled(&self, full: usize, least: usize) -> usize {
        let share = self.time.as_secs_f64() / FULL.as_secs_f64();
        least.max((full as f64 * share) as usize)
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
        self.at_most(3.0, what, share, "% of a core");
        Ok(())
    }

    async fn throughput(&mut self) -> Result<(), BenchError> {
        const RATE: &str = "deliveries/s";
        let (rate, scripts_us) = self.drain((8, 8), FAST, 400).await?;
        self.at_least(2_000.0, "64 lanes", rate, RATE);
        self.at_most(80.0, "scripts of Redis", scripts_us, "µs per delivery");
        let (rate, _) = self.drain((8, 8), NAMED, 400).await?;
        self.at_least(2_000.0, "64 lanes, receivers by a host name", rate, RATE);
        let (rate, _) = self.drain((1, 1), FAST, 900).await?;
        self.at_least(400.0, "one lane", rate, RATE);
        let (rate, _) = self.drain(self.thousand(), SLOW, 20).await?;
        self.at_least(2_000.0, "1,000 lanes, receivers take 50 ms", rate, RATE);
        Ok(())
    }

    /// Causes events, starts a dispatcher, and waits until all have arrived. Returns deliveries per second, and the time of
    /// Redis's scripts for each in microseconds.
    async fn drain(
        &mut self,
        shape: (usize, usize),
        kind: Kind,
        events: usize,
    ) -> Result<(f64, f64), BenchError> {
        let senders = Senders::make(self, shape, kind).await?;
        let events = self.scaled(events, 5);
        senders.cause(events).await?;
        self.stack.store.reset_statistics().await?;
        let _dispatcher = self.stack.dispatcher()?;
        let arrivals = self.arrived(events * senders.lanes()).await;
        let scripts = self.stack.store.statistics().await?.command("evalsha");
        senders.unsubscribe().await?;
        let count = arrivals.len().max(1) as f64;
        let times = arrivals.iter().map(|arrival| arrival.at);
        let took = times.clone().max().zip(times.min());
        let took = took.map_or(0.0, |(last, first)| (last - first).as_secs_f64());
        Ok((count / took.max(1e-3), scripts.us as f64 / count))
    }

    async fn latency(&mut self) -> Result<(), BenchError> {
        let senders = Senders::make(self, (8, 8), FAST).await?;
        let _dispatcher = self.stack.dispatcher()?;
        sleep(SETTLED).await;
        // Each event is eight deliveries: 1,000 a second.
        let events = senders.cause_for(125.0, self.time).await?;
        let arrivals = self.arrived(events * 8).await;
        let waited = self.waits(arrivals.iter());
        let (p50_ms, p99_ms) = (waited.p50_us / 1e3, waited.p99_us / 1e3);
        self.at_most(120.0, "event to attempt at 1,000/s, p50", p50_ms, "ms");
        self.at_most(300.0, "event to attempt at 1,000/s, p99", p99_ms, "ms");
        senders.unsubscribe().await
    }

    async fn dead(&mut self) -> Result<(), BenchError> {
        let good = Senders::make(self, (1, 1), FAST).await?;
        let dispatcher = self.stack.dispatcher()?;
        sleep(SETTLED).await;
        let alone = self.beside(&good).await?;
        let resident_before = resident_memory(&dispatcher);
        let dead = Senders::make(self, self.thousand(), DEAD).await?;
        let (records_before, bytes_before) = stored(&self.stack.store).await?;
        dead.cause(self.scaled(20, 5)).await?;
        sleep(SETTLED).await;
        let (records, bytes) = stored(&self.stack.store).await?;
        let records = records.saturating_sub(records_before).max(1) as f64;
        let per_record = (bytes - bytes_before) as f64 / records;
        self.at_most(600.0, "Redis per pending delivery", per_record, "bytes");
        let in_flight = self.receivers.wait_for(0).await.first.len().max(1) as f64;
        let resident = resident_memory(&dispatcher).zip(resident_before);
        let growth = resident.map_or(0, |(now, before)| now.saturating_sub(before));
        let what = "dispatcher per attempt in flight";
        self.at_most(49_152.0, what, growth as f64 / in_flight, "bytes");
        let ratio = self.beside(&good).await?.p99_us / alone.p99_us.max(1.0);
        let what = "a good receiver beside 1,000 dead ones, p99";
        self.at_most(1.5, what, ratio, "times alone");
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
        self.missing += events.saturating_sub(of_good.clone().count());
        Ok(self.waits(of_good))
    }

    /// Ends one of two dispatchers while they deliver, and reports the longest time that a lane waited for its next event.
    async fn takeover(
        &mut self,
        what: &'static str,
        end: fn(Process),
        limit_s: f64,
    ) -> Result<(), BenchError> {
        let senders = Senders::make(self, (8, 8), SLOW).await?;
        let (first, _second) = (self.stack.dispatcher()?, self.stack.dispatcher()?);
        sleep(SETTLED).await;
        let events = self.scaled(200, 60);
        senders.cause(events).await?;
        sleep(Duration::from_secs(1)).await;
        let ended = Instant::now();
        let ending = spawn_blocking(move || end(first));
        let expected = events * senders.lanes();
        // What was in flight may arrive twice.
        let arrivals = self.receivers.wait_for(expected).await.first;
        self.missing += expected.saturating_sub(arrivals.len());
        ending.await.expect("ending does not panic");
        senders.unsubscribe().await?;
        let pauses = (0..senders.lanes()).map(|lane| longest_pause(&arrivals, lane, ended));
        let longest = pauses.max().unwrap_or_default().as_secs_f64();
        self.at_most(limit_s, what, longest, "s");
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
