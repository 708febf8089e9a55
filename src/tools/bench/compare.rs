//! `bench --compare`: the service beside its own scripts, so that the difference is what HTTP, JSON and waiting cost.
//!
//! All figures come from one run, because those of a shared machine vary from hour to hour. The scripts alone run first and
//! last; ratios are to their mean.

use std::time::Duration;

use serde_json::json;

use super::args::{BenchArgs, LoadArgs, Workload};
use super::load::{self, LoadRun};
use super::recorder::time;
use super::script::{self, Script};
use super::service::{Change, disagreement};
use super::stack::{Stack, resident_memory};
use super::{BenchError, Report};
use crate::tools::table::Table;

/// Clients of the run that everything is compared with.
const CLIENTS: u16 = 50;

/// Starts a Redis and a service, and measures them.
pub(super) async fn run(args: &BenchArgs) -> Result<Report, BenchError> {
    let stack = Stack::start(args.dialect).await?;
    let (service, load, scopes) = (&stack.service, &args.load, args.load.scopes);
    let service_before = resident_memory(&stack.api);
    let tenant = service.provision(scopes).await?;
    let reserve = Script::Reserve(load.duration);

    let redis_before = stack.store.statistics().await?.used_memory as f64;
    let first = vec![(reserve, CLIENTS), (reserve, 1), (Script::Commit, CLIENTS)];
    let mut scripts = script::run(&stack, &tenant, first).await?;
    let redis_bytes = stack.store.statistics().await?.used_memory as f64 - redis_before;

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
        eprintln!("{}", load.name());
        http.push(LoadRun::measure(service, &load, args.progress).await?);
    }
    let round_trips = round_trips(&stack, load).await?;
    let service_bytes = service_before.zip(resident_memory(&stack.api));
    scripts.extend(script::run(&stack, &tenant, vec![(reserve, CLIENTS)]).await?);
    let script_per_second = (scripts[0].calls.per_second + scripts[3].calls.per_second) / 2.0;
    let one_client_ratio = http[0].all().p50_us / scripts[1].calls.p50_us;
    let bytes_per_reservation = redis_bytes / scripts[2].calls.count as f64;
    let mut change = Change::default();
    scripts.iter().for_each(|run| change.add(run.change));
    let script_differences = service.check(&tenant, change).await?;
    let report = |run: &LoadRun| run.report(args.max_error_rate);
    let reports: Vec<_> = http.iter().map(report).collect();
    let table = table(&http, scopes, script_per_second);
    let mut text = format!(
        "{}\n{table}\n\
        one client over HTTP: {one_client_ratio:.2} times the median of the script alone\n\
        round trips to Redis per request: {round_trips:.3}\n\
        memory of Redis per committed reservation: {bytes_per_reservation:.0} bytes\n",
        script::table(&scripts, scopes),
    );
    if let Some((before, after)) = service_bytes {
        let (before, after) = (before as f64 / 1e6, after as f64 / 1e6);
        text += &format!(
            "memory of the service: {before:.1} MB at first, {after:.1} MB after the load\n"
        );
    }
    let generator = http.iter().filter_map(LoadRun::generator_us_per_request);
    if let Some(most) = generator.reduce(f64::max) {
        text += &format!("generator: at most {most:.1} µs of processor time per request\n");
    }
    text += &disagreement("ledger of the scripts alone", &script_differences);
    for (run, report) in http.iter().zip(&reports) {
        if !run.agrees() || run.recorder.failed > 0 {
            text += &format!("\n{}", report.text);
        }
    }
    Ok(Report {
        is_well: script_differences.is_empty() && reports.iter().all(|report| report.is_well),
        text,
        json: json!({
            "scopes": scopes,
            // Reserves of many clients first, of one, commits of many, reserves of many last.
            "scripts": scripts,
            "script_differences": script_differences,
            "http": reports.into_iter().map(|report| report.json).collect::<Vec<_>>(),
            "script_per_second": script_per_second,
            "one_client_ratio": one_client_ratio,
            "bytes_per_reservation": bytes_per_reservation,
            "service_bytes": service_bytes,
            "round_trips": round_trips,
        }),
    })
}

/// A table of the runs over HTTP.
fn table(runs: &[LoadRun], scopes: u8, script_per_second: f64) -> Table {
    let title = format!("over HTTP, {scopes} scopes");
    let headings = [&title, "per s", "ratio", "p50", "p99", "errors", "ledger"];
    let mut table = Table::new(1, headings);
    for run in runs {
        let all = run.all();
        table.row([
            run.load.name(),
            format!("{:.0}", all.per_second),
            format!("{:.2}", all.per_second / script_per_second),
            time(all.p50_us),
            time(all.p99_us),
            run.recorder.failed.to_string(),
            ["DIFFERS", "agrees"][usize::from(run.agrees())].to_owned(),
        ]);
    }
    table
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
