//! The service beside its own scripts: what HTTP, reading and writing JSON, and waiting cost on top of Redis.
//!
//! All figures of one comparison come from one run, because those of a shared machine mean little from one hour to the
//! next. The scripts alone are measured first and last; ratios are to the mean.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::args::{BenchArgs, LoadArgs, Workload};
use super::bare::COLUMNS;
use super::error::BenchError;
use super::ledger::{Difference, Sums};
use super::provision::Service;
use super::report::{Report, clients, time, write_differences};
use super::script::{Script, ScriptRun};
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
    /// Ledgers that do not show what the scripts alone did.
    pub script_differences: Vec<Difference>,
    pub http: Vec<Report>,
    /// Calls of `reserve.lua` per second, first and last.
    pub script_per_second: f64,
    /// Median of one client over HTTP to the median of one client of the script.
    pub one_client_ratio: f64,
    /// Memory of Redis for a reservation that was committed, in bytes.
    pub bytes_per_reservation: f64,
    /// Memory of the service before the load and after it, in bytes.
    pub service_bytes: Option<(u64, u64)>,
    /// Commands that the service sent to Redis for one request.
    pub round_trips: f64,
}

/// Starts a Redis and a service, and measures them.
pub(super) async fn run(args: &BenchArgs) -> Result<Comparison, BenchError> {
    let stack = Stack::start(args.dialect).await?;
    let load = |workload, clients| LoadArgs {
        workload,
        clients,
        ..args.load.clone()
    };
    let service_before = stack.resident_memory();
    let tenant = stack.service.provision(args.load.scopes).await?;
    let bare = stack.bare(&tenant);
    let store = bare.store()?;
    let reserve = || Script::Reserve(args.load.duration);

    let memory_before = store.statistics().await?.used_memory;
    let mut first = bare.run(CLIENTS, reserve()).await?;
    let mut one = bare.run(1, reserve()).await?;
    let mut held = std::mem::take(&mut first.held);
    held.append(&mut one.held);
    let reservations = held.len() as f64;
    let commit = bare.run(CLIENTS, Script::Commit(held)).await?;
    let memory_after = store.statistics().await?.used_memory;

    let mut http = Vec::new();
    for clients in [1, 10, CLIENTS, 200] {
        http.push(one_run(args, &stack.service, &load(Workload::Reserve, clients)).await?);
    }
    http.push(one_run(args, &stack.service, &load(Workload::Commit, CLIENTS)).await?);
    let mixed = load(Workload::Mixed, CLIENTS);
    http.push(one_run(args, &stack.service, &mixed).await?);
    let round_trips = round_trips(&stack, &mixed).await?;
    let service_bytes = service_before.zip(stack.resident_memory());
    let last = bare.run(CLIENTS, reserve()).await?;
    let mut sums = Sums::default();
    for run in [&first, &one, &commit, &last] {
        sums.add(&run.sums);
    }

    Ok(Comparison {
        scopes: args.load.scopes,
        script_per_second: (first.calls.per_second + last.calls.per_second) / 2.0,
        one_client_ratio: http[0].all().p50_us / one.calls.p50_us,
        bytes_per_reservation: (memory_after as f64 - memory_before as f64) / reservations,
        service_bytes,
        round_trips,
        script_differences: stack.service.check(&tenant, &sums).await?,
        scripts: vec![first, one, commit, last],
        http,
    })
}

async fn one_run(
    args: &BenchArgs,
    service: &Service,
    load: &LoadArgs,
) -> Result<Report, BenchError> {
    eprintln!("{}", clients(load.workload.as_str(), load.clients));
    run_load(service, load, args.progress).await
}

/// How many commands the service sends to Redis for one request, once it knows the scripts and the key.
async fn round_trips(stack: &Stack, load: &LoadArgs) -> Result<f64, BenchError> {
    let short = LoadArgs {
        duration: Duration::from_millis(200),
        warmup: Duration::ZERO,
        ..load.clone()
    };
    let tenant = stack.service.provision(load.scopes).await?;
    stack.service.check(&tenant, &Sums::default()).await?;
    let monitor = stack.watch().await?;
    let measured = load::run(&stack.service, &tenant, &short, false).await?;
    let commands = monitor.end().await?;
    Ok(commands as f64 / measured.books.recorder.attempts.max(1) as f64)
}

impl Comparison {
    /// Whether every ledger agreed, and no run had more errors than allowed.
    pub fn is_well(&self, max_error_rate: f64) -> bool {
        let well = |run: &Report| run.ledger.agrees && run.error_rate <= max_error_rate;
        self.script_differences.is_empty() && self.http.iter().all(well)
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ratio = |per_second: f64| format!("{:.2}", per_second / self.script_per_second);
        let scopes = self.scopes;
        let mut table = Table::new(&format!("scripts alone, {scopes} scopes"), &COLUMNS);
        for run in &self.scripts {
            table.row(&run.name(), run.cells());
        }
        writeln!(f, "{table}")?;
        let mut table = Table::new(
            &format!("over HTTP, {scopes} scopes"),
            &["per s", "ratio", "p50", "p99", "errors", "ledger"],
        );
        for run in &self.http {
            let all = run.all();
            let agrees = if run.ledger.agrees {
                "agrees"
            } else {
                "DIFFERS"
            };
            table.row(
                &clients(run.workload.as_str(), run.clients),
                [
                    format!("{:.0}", all.per_second),
                    ratio(all.per_second),
                    time(all.p50_us),
                    time(all.p99_us),
                    run.errors
                        .iter()
                        .map(|error| error.count)
                        .sum::<u64>()
                        .to_string(),
                    agrees.to_owned(),
                ],
            );
        }
        writeln!(f, "{table}")?;
        writeln!(
            f,
            "one client over HTTP: {:.2} times the median of the script alone",
            self.one_client_ratio
        )?;
        writeln!(
            f,
            "round trips to Redis per request: {:.3}",
            self.round_trips
        )?;
        writeln!(
            f,
            "memory of Redis per committed reservation: {:.0} bytes",
            self.bytes_per_reservation
        )?;
        if let Some((before, after)) = self.service_bytes {
            let mb = |bytes: u64| bytes as f64 / 1e6;
            writeln!(
                f,
                "memory of the service: {:.1} MB at first, {:.1} MB after the load",
                mb(before),
                mb(after)
            )?;
        }
        let generator = self
            .http
            .iter()
            .filter_map(|run| run.generator_us_per_request);
        if let Some(most) = generator.reduce(f64::max) {
            writeln!(
                f,
                "generator: at most {most:.1} µs of processor time per request"
            )?;
        }
        if !self.script_differences.is_empty() {
            writeln!(
                f,
                "ledger of the scripts alone: does NOT agree with what they answered"
            )?;
            write_differences(f, &self.script_differences)?;
        }
        for run in self
            .http
            .iter()
            .filter(|run| !run.ledger.agrees || !run.errors.is_empty())
        {
            writeln!(f, "\n{run}")?;
        }
        Ok(())
    }
}
