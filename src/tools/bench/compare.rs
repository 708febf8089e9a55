//! `bench --compare`: the service beside its own scripts, so that the difference is what HTTP, JSON and waiting cost.
//!
//! All figures come from one run, because those of a shared machine vary from hour to hour. The scripts alone run first and
//! last; ratios are to their mean.

use std::time::Duration;

use serde_json::json;

use super::args::{BenchArgs, Workload};
use super::load::{self, LoadRun};
use super::recorder::time;
use super::script::{self, Script, Session};
use super::service::{Change, Tenant, disagreement};
use super::stack::{Stack, resident_memory};
use super::{BenchError, Report};
use crate::tools::table::Table;

/// Clients of the run that everything is compared with.
const CLIENTS: u16 = 50;

pub(super) async fn run(args: &BenchArgs) -> Result<Report, BenchError> {
    let stack = Stack::start(args.dialect).await?;
    let (service, scopes) = (&stack.service, args.scopes);
    let service_before = resident_memory(&stack.api);
    let tenant = service.provision(scopes).await?;
    let session = Session::open(&stack, &tenant).await?;
    let reserve = Script::Reserve(args.duration);
    let mut scripts = Vec::new();

    let redis_before = stack.store.statistics().await?.used_memory as f64;
    for (script, clients) in [(reserve, CLIENTS), (reserve, 1), (Script::Commit, CLIENTS)] {
        scripts.push(session.run(script, clients).await?);
    }
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
        let args = BenchArgs {
            workload,
            clients,
            ..args.clone()
        };
        eprintln!("{}", args.name());
        http.push(LoadRun::measure(service, &args).await?);
    }
    let service_bytes = service_before.zip(resident_memory(&stack.api));
    scripts.push(session.run(reserve, CLIENTS).await?);
    let script_per_second = (scripts[0].calls.per_second + scripts[3].calls.per_second) / 2.0;
    let one_client_ratio = http[0].all().p50_us / scripts[1].calls.p50_us;
    let bytes_per_reservation = redis_bytes / scripts[2].calls.count as f64;
    let mut change = Change::default();
    scripts.iter().for_each(|run| change.add(run.change));
    let script_differences = service.check(&tenant, change).await?;
    let round_trips = round_trips(&stack, &tenant, args).await?;
    let reports: Vec<_> = http.iter().map(LoadRun::report).collect();
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
    let generator_us = |run: &LoadRun| run.recorder.generator_us_per_request;
    if let Some(most) = http.iter().filter_map(generator_us).reduce(f64::max) {
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

fn table(runs: &[LoadRun], scopes: u8, script_per_second: f64) -> Table {
    let title = format!("over HTTP, {scopes} scopes");
    let headings = [&title, "per s", "ratio", "p50", "p99", "errors", "ledger"];
    let mut table = Table::new(1, headings);
    for run in runs {
        let all = run.all();
        table.row([
            run.args.name(),
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

/// Calls of scripts for one request of the mix, by a tenant whose key the service knows.
async fn round_trips(stack: &Stack, tenant: &Tenant, args: &BenchArgs) -> Result<f64, BenchError> {
    let args = BenchArgs {
        workload: Workload::Mixed,
        clients: 1,
        duration: Duration::from_millis(200),
        warmup: Duration::ZERO,
        ..args.clone()
    };
    let mut least = f64::INFINITY;
    // The service also makes calls of its own, and on a busy machine there may be few requests beside them.
    for _ in 0..3 {
        stack.store.reset_statistics().await?;
        let measured = load::run(&stack.service, tenant, &args).await?;
        let calls = stack.store.statistics().await?.command("evalsha").calls;
        least = least.min(calls as f64 / measured.attempts.max(1) as f64);
    }
    Ok(least)
}
