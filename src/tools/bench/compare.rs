//! `bench --compare`: the service beside its own scripts, so that the difference is what HTTP, JSON and waiting cost.
//!
//! All figures come from one run, because those of a shared machine vary from hour to hour. The scripts alone run first and
//! last; ratios are to their mean.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::args::{BenchArgs, LoadArgs, Workload};
use super::error::BenchError;
use super::ledger::{Difference, Totals};
use super::report::{DISAGREES, Outcome, Report, clients, time, write_differences};
use super::script::{COLUMNS, Script, ScriptRun};
use super::stack::Stack;
use super::table::Table;
use super::{load, run_load};

/// Clients of the run that everything is compared with.
const CLIENTS: u16 = 50;

/// All figures of one run.
#[derive(Debug, Serialize)]
pub(super) struct Comparison {
    pub scopes: u8,
    /// `reserve` by many clients first, by one, `commit` by many, `reserve` by many last.
    pub scripts: Vec<ScriptRun>,
    /// Ledgers whose figures are not the totals of the scripts alone.
    pub script_differences: Vec<Difference>,
    pub http: Vec<Report>,
    /// Calls of `reserve.lua` per second: the mean of first and last.
    pub script_per_second: f64,
    /// Median of one client over HTTP to the median of one client of the script.
    pub one_client_ratio: f64,
    /// Memory of Redis for a committed reservation, in bytes.
    pub bytes_per_reservation: f64,
    /// Memory of the service before the load and after it, in bytes.
    pub service_bytes: Option<(u64, u64)>,
    /// Commands that the service sends to Redis for one request.
    pub round_trips: f64,
}

/// Starts a Redis and a service, and measures them.
pub(super) async fn run(args: &BenchArgs) -> Result<Comparison, BenchError> {
    let stack = Stack::start(args.dialect).await?;
    let service_before = stack.resident_memory();
    let tenant = stack.service.provision(args.load.scopes).await?;
    let (scripts, store) = (stack.scripts(&tenant), stack.deployment.store()?);
    let reserve = || Script::reserve_for(args.load.duration);

    let memory_before = store.statistics().await?.used_memory;
    let mut first = scripts.run(CLIENTS, reserve()).await?;
    let mut one = scripts.run(1, reserve()).await?;
    let mut held = std::mem::take(&mut first.held);
    held.append(&mut one.held);
    let commit = scripts.run(CLIENTS, Script::Commit(held)).await?;
    let memory = store.statistics().await?.used_memory as f64 - memory_before as f64;

    let mut http = Vec::new();
    for (workload, clients) in [
        (Workload::Reserve, 1),
        (Workload::Reserve, 10),
        (Workload::Reserve, CLIENTS),
        (Workload::Reserve, 200),
        (Workload::Commit, CLIENTS),
        (Workload::Mixed, CLIENTS),
    ] {
        let load = LoadArgs {
            workload,
            clients,
            ..args.load.clone()
        };
        eprintln!("{}", self::clients(workload, clients));
        http.push(run_load(&stack.service, &load, args.progress).await?);
    }
    let round_trips = round_trips(&stack, &args.load).await?;
    let service_bytes = service_before.zip(stack.resident_memory());
    let last = scripts.run(CLIENTS, reserve()).await?;
    let mut totals = Totals::default();
    for run in [&first, &one, &commit, &last] {
        totals.add(&run.totals);
    }
    Ok(Comparison {
        scopes: args.load.scopes,
        script_per_second: (first.calls.per_second + last.calls.per_second) / 2.0,
        one_client_ratio: http[0].all().p50_us / one.calls.p50_us,
        bytes_per_reservation: memory / commit.held.len() as f64,
        service_bytes,
        round_trips,
        script_differences: stack.service.check(&tenant, &totals).await?,
        scripts: vec![first, one, commit, last],
        http,
    })
}

/// Commands that the service sends to Redis for one request of the mix, once it knows the scripts and the key.
async fn round_trips(stack: &Stack, load: &LoadArgs) -> Result<f64, BenchError> {
    let short = LoadArgs {
        workload: Workload::Mixed,
        clients: CLIENTS,
        duration: Duration::from_millis(200),
        warmup: Duration::ZERO,
        ..load.clone()
    };
    let tenant = stack.service.provision(load.scopes).await?;
    stack.service.check(&tenant, &Totals::default()).await?;
    let monitor = stack.monitor().await?;
    let measured = load::run(&stack.service, &tenant, &short, false).await?;
    let commands = monitor.end().await?;
    Ok(commands as f64 / measured.results.recorder.attempts.max(1) as f64)
}

impl Outcome for Comparison {
    fn is_well(&self, max_error_rate: f64) -> bool {
        let mut runs = self.http.iter();
        self.script_differences.is_empty() && runs.all(|run| run.is_well(max_error_rate))
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scopes = self.scopes;
        let mut table = Table::new(&format!("scripts alone, {scopes} scopes"), &COLUMNS);
        for run in &self.scripts {
            table.row(&run.name(), run.cells());
        }
        writeln!(f, "{table}")?;
        let columns = ["per s", "ratio", "p50", "p99", "errors", "ledger"];
        let mut table = Table::new(&format!("over HTTP, {scopes} scopes"), &columns);
        for run in &self.http {
            table.row(&clients(run.workload, run.clients), self.cells(run));
        }
        writeln!(f, "{table}")?;
        let ratio = self.one_client_ratio;
        writeln!(
            f,
            "one client over HTTP: {ratio:.2} times the median of the script alone"
        )?;
        let trips = self.round_trips;
        writeln!(f, "round trips to Redis per request: {trips:.3}")?;
        let bytes = self.bytes_per_reservation;
        writeln!(
            f,
            "memory of Redis per committed reservation: {bytes:.0} bytes"
        )?;
        if let Some((before, after)) = self.service_bytes {
            let (before, after) = (before as f64 / 1e6, after as f64 / 1e6);
            writeln!(
                f,
                "memory of the service: {before:.1} MB at first, {after:.1} MB after the load"
            )?;
        }
        let runs = self.http.iter();
        let generator = runs.filter_map(|run| run.generator_us_per_request);
        if let Some(most) = generator.reduce(f64::max) {
            writeln!(
                f,
                "generator: at most {most:.1} µs of processor time per request"
            )?;
        }
        if !self.script_differences.is_empty() {
            writeln!(f, "ledger of the scripts alone: {DISAGREES}")?;
            write_differences(f, &self.script_differences)?;
        }
        let failed = |run: &&Report| !run.ledger.agrees || !run.errors.is_empty();
        for run in self.http.iter().filter(failed) {
            writeln!(f, "\n{run}")?;
        }
        Ok(())
    }
}

impl Comparison {
    fn cells(&self, run: &Report) -> [String; 6] {
        let all = run.all();
        let errors: u64 = run.errors.iter().map(|error| error.count).sum();
        let ledger = match run.ledger.agrees {
            true => "agrees",
            false => "DIFFERS",
        };
        [
            format!("{:.0}", all.per_second),
            format!("{:.2}", all.per_second / self.script_per_second),
            time(all.p50_us),
            time(all.p99_us),
            errors.to_string(),
            ledger.to_owned(),
        ]
    }
}
