//! `bench --compare`: the service beside its own scripts, so that the difference is what HTTP, JSON and waiting cost.
//!
//! All figures come from one run, because those of a shared machine vary from hour to hour. The scripts alone run first and
//! last; ratios are to their mean.

use std::time::Duration;

use serde::Serialize;

use super::args::{BenchArgs, LoadArgs, Workload};
use super::load::{self, Report, clients};
use super::recorder::time;
use super::script::{self, Script, ScriptRun};
use super::service::{Change, Difference, disagreement};
use super::stack::{Stack, resident_memory};
use super::{BenchError, BenchReport};
use crate::tools::table::Table;

/// Clients of the run that everything is compared with.
const CLIENTS: u16 = 50;

/// All figures of one run.
#[derive(Debug, Serialize)]
pub(super) struct Comparison {
    scopes: u8,
    /// `reserve` by many clients first, by one, `commit` by many, `reserve` by many last.
    scripts: Vec<ScriptRun>,
    /// Ledgers whose figures are not the totals of the scripts alone.
    script_differences: Vec<Difference>,
    http: Vec<Report>,
    /// Calls of `reserve.lua` per second: the mean of first and last.
    script_per_second: f64,
    /// Median of one client over HTTP to the median of one client of the script.
    one_client_ratio: f64,
    /// Memory of Redis for a committed reservation, in bytes.
    bytes_per_reservation: f64,
    /// Memory of the service before the load and after it, in bytes.
    service_bytes: Option<(u64, u64)>,
    /// Calls of scripts for one request.
    round_trips: f64,
}

/// Starts a Redis and a service, and measures them.
pub(super) async fn run(args: &BenchArgs) -> Result<Comparison, BenchError> {
    let stack = Stack::start(args.dialect).await?;
    let (service, load) = (&stack.service, &args.load);
    let service_before = resident_memory(&stack.api);
    let tenant = service.provision(load.scopes).await?;
    let run = async |clients, script| script::run(&stack, &tenant, clients, script).await;
    let reserve = || Script::Reserve(load.duration);

    let redis_before = stack.used_memory().await?;
    let mut first = run(CLIENTS, reserve()).await?;
    let mut one = run(1, reserve()).await?;
    let mut held = std::mem::take(&mut first.held);
    held.append(&mut one.held);
    let committed = held.len() as f64;
    let commit = run(CLIENTS, Script::Commit(held)).await?;
    let redis_bytes = stack.used_memory().await? as f64 - redis_before as f64;

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
            ..load.clone()
        };
        eprintln!("{}", self::clients(workload, clients));
        http.push(Report::measure(service, &load, args.progress).await?);
    }
    let round_trips = round_trips(&stack, load).await?;
    let service_bytes = service_before.zip(resident_memory(&stack.api));
    let last = run(CLIENTS, reserve()).await?;
    let mut change = Change::default();
    for run in [&first, &one, &commit, &last] {
        change.add(run.change, 1);
    }
    Ok(Comparison {
        scopes: load.scopes,
        script_differences: service.check(&tenant, change).await?,
        script_per_second: (first.calls.per_second + last.calls.per_second) / 2.0,
        one_client_ratio: http[0].all().p50_us / one.calls.p50_us,
        bytes_per_reservation: redis_bytes / committed,
        service_bytes,
        round_trips,
        scripts: vec![first, one, commit, last],
        http,
    })
}

/// Calls of scripts for one request of the mix.
async fn round_trips(stack: &Stack, load: &LoadArgs) -> Result<f64, BenchError> {
    let short = LoadArgs {
        workload: Workload::Mixed,
        // Requests in flight at the end are calls, but not attempts.
        clients: 1,
        duration: Duration::from_millis(200),
        warmup: Duration::ZERO,
        ..load.clone()
    };
    let tenant = stack.service.provision(load.scopes).await?;
    // So that the service knows the key.
    stack.service.check(&tenant, Change::default()).await?;
    stack.store.reset_statistics().await?;
    let measured = load::run(&stack.service, &tenant, &short, false).await?;
    let calls = stack.store.statistics().await?.command("evalsha").calls;
    Ok(calls as f64 / measured.attempts.max(1) as f64)
}

impl BenchReport for Comparison {
    fn is_well(&self, max_error_rate: f64) -> bool {
        let mut runs = self.http.iter();
        self.script_differences.is_empty() && runs.all(|run| run.is_well(max_error_rate))
    }

    fn text(&self) -> String {
        let title = format!("over HTTP, {} scopes", self.scopes);
        let headings = [&title, "per s", "ratio", "p50", "p99", "errors", "ledger"];
        let mut table = Table::new(1, headings);
        for run in &self.http {
            let (all, errors) = (run.all(), run.errors.iter().map(|error| error.count));
            let agrees = ["DIFFERS", "agrees"][usize::from(run.ledger.agrees)];
            table.row([
                clients(run.workload, run.clients),
                format!("{:.0}", all.per_second),
                format!("{:.2}", all.per_second / self.script_per_second),
                time(all.p50_us),
                time(all.p99_us),
                errors.sum::<u64>().to_string(),
                agrees.to_owned(),
            ]);
        }
        let mut text = format!(
            "{}\n{table}\n\
            one client over HTTP: {:.2} times the median of the script alone\n\
            round trips to Redis per request: {:.3}\n\
            memory of Redis per committed reservation: {:.0} bytes\n",
            script::table(&self.scripts, self.scopes),
            self.one_client_ratio,
            self.round_trips,
            self.bytes_per_reservation,
        );
        if let Some((before, after)) = self.service_bytes {
            let (before, after) = (before as f64 / 1e6, after as f64 / 1e6);
            text += &format!(
                "memory of the service: {before:.1} MB at first, {after:.1} MB after the load\n"
            );
        }
        let runs = self.http.iter();
        let generator = runs.filter_map(|run| run.generator_us_per_request);
        if let Some(most) = generator.reduce(f64::max) {
            text += &format!("generator: at most {most:.1} µs of processor time per request\n");
        }
        text += &disagreement("ledger of the scripts alone", &self.script_differences);
        for run in &self.http {
            if !run.ledger.agrees || !run.errors.is_empty() {
                text += &format!("\n{}", run.text());
            }
        }
        text
    }
}
