//! Runs the clients, and reports what they measured.

use std::io::{IsTerminal, stderr};
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::args::BenchArgs;
use super::client::Shared;
use super::recorder::{Failure, Recorder, Summary, time};
use super::service::{Change, Service, Tenant, disagreement};
use super::stack::cpu_time;
use super::{BenchError, Report};
use crate::tools::client::header_value;
use crate::tools::table::Table;

/// One run of the load with a tenant of its own, and the ledgers afterwards.
pub(super) struct LoadRun {
    pub args: BenchArgs,
    tenant: String,
    pub recorder: Recorder,
    differences: Vec<Value>,
}

impl LoadRun {
    /// Runs the load, and compares the ledgers with the responses.
    pub async fn measure(service: &Service, args: &BenchArgs) -> Result<Self, BenchError> {
        let tenant = service.provision(args.scopes).await?;
        let recorder = run(service, &tenant, args).await?;
        Ok(Self {
            differences: service.check(&tenant, recorder.change).await?,
            args: args.clone(),
            tenant: tenant.id,
            recorder,
        })
    }

    pub fn all(&self) -> Summary {
        self.recorder.summaries().pop().unwrap_or_default()
    }

    /// Whether each ledger is what the responses say, and each outcome is known.
    pub fn agrees(&self) -> bool {
        let run = &self.recorder;
        self.differences.is_empty() && run.unresolved == 0 && run.contradictions == 0
    }

    fn error_rate(&self) -> f64 {
        self.recorder.failed as f64 / self.recorder.attempts.max(1) as f64
    }

    pub fn report(&self) -> Report {
        let (args, recorder) = (&self.args, &self.recorder);
        Report {
            json: json!({
                "workload": <&str>::from(args.workload),
                "clients": args.clients,
                "scopes": args.scopes,
                "tenant": self.tenant,
                "seconds": recorder.elapsed.as_secs_f64(),
                "operations": recorder.summaries(),
                "requests": recorder.attempts,
                "errors": recorder.errors.values().collect::<Vec<_>>(),
                "error_rate": self.error_rate(),
                "ledger": {
                    "agrees": self.agrees(),
                    "expected": recorder.change.expected(),
                    "differences": self.differences,
                    "unresolved": recorder.unresolved,
                    "contradictions": recorder.contradictions,
                    "first_contradiction": recorder.first_contradiction,
                },
                "generator_us_per_request": recorder.generator_us_per_request,
            }),
            text: self.text(),
            is_well: self.agrees() && self.error_rate() <= args.max_error_rate,
        }
    }

    fn text(&self) -> String {
        let recorder = &self.recorder;
        let headings = "operation, count, per s, p50, p90, p99, p99.9, max";
        let mut table = Table::new(1, headings.split(", "));
        for it in recorder.summaries() {
            let times = [it.p50_us, it.p90_us, it.p99_us, it.p999_us, it.max_us].map(time);
            let counts = [it.count.to_string(), format!("{:.0}", it.per_second)];
            let name = [it.operation.to_owned()].into_iter();
            table.row(name.chain(counts).chain(times));
        }
        let (name, tenant, scopes) = (self.args.name(), &self.tenant, self.args.scopes);
        let (seconds, requests) = (recorder.elapsed.as_secs_f64(), recorder.attempts);
        let mut text =
            format!("{name}, {scopes} scopes, {seconds:.1} s, tenant {tenant}\n\n{table}\n");
        text += &match self.error_rate() * 100.0 {
            0.0 => format!("errors: none in {requests} requests\n"),
            rate => format!("errors: {rate:.3} % of {requests} requests\n"),
        };
        for ((status, code), Failure { count, message, .. }) in &recorder.errors {
            text += &format!("  {count:>8}  {status:>3} {code}  {message}\n");
        }
        text += &disagreement("ledger", &self.differences);
        if self.agrees() {
            let Change { reserved, spent } = recorder.change;
            text += &format!(
                "ledger: agrees to the unit in {scopes} scopes (reserved {reserved}, spent {spent})\n"
            );
        }
        let unresolved = recorder.unresolved;
        if unresolved > 0 {
            text += &format!("  {unresolved} operations have no known outcome\n");
        }
        if let Some(first) = &recorder.first_contradiction {
            let contradictions = recorder.contradictions;
            text += &format!("  {contradictions} responses contradict, first {first}\n");
        }
        if let Some(us) = recorder.generator_us_per_request {
            text += &format!("generator: {us:.1} µs of processor time per request\n");
        }
        text
    }
}

/// Runs the load to its end.
pub(super) async fn run(
    service: &Service,
    tenant: &Tenant,
    args: &BenchArgs,
) -> Result<Recorder, BenchError> {
    let url = service.runtime.clone();
    let authority = HeaderValue::from_str(url.authority()).expect("an authority is ASCII");
    let api_key = service.dialect.header_names().api_key.clone();
    let headers = HeaderMap::from_iter([
        (HOST, authority),
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (api_key, header_value(&tenant.key)?),
    ]);
    let action = json!({"kind": "llm.completion", "name": "bench:model"});
    let cpu_before = cpu_time("thread-self");
    let measure_from = Instant::now() + args.warmup;
    let shared = Arc::new(Shared {
        url,
        headers,
        subject: format!(r#","subject":{},"action":{action}"#, tenant.subject),
        workload: args.workload,
        measure_from,
        until: measure_from + args.duration,
        recorder: Mutex::default(),
    });
    let mut clients = JoinSet::new();
    for number in 0..args.clients {
        clients.spawn(Arc::clone(&shared).run_client(number.into()));
    }
    tokio::select! {
        _ = clients.join_all() => (),
        () = print_progress(&shared), if args.progress || stderr().is_terminal() => (),
    }
    let mut recorder = mem::take(&mut *shared.recorder.lock());
    recorder.elapsed = measure_from.elapsed();
    let cpu = cpu_time("thread-self").zip(cpu_before);
    let cpu_us = cpu.map(|(after, before)| after.saturating_sub(before).as_secs_f64() * 1e6);
    recorder.generator_us_per_request = cpu_us.map(|us| us / recorder.attempts.max(1) as f64);
    Ok(recorder)
}

/// Prints a line per second.
async fn print_progress(shared: &Shared) {
    let mut succeeded_before = 0;
    loop {
        sleep(Duration::from_secs(1)).await;
        let recorder = shared.recorder.lock();
        let (failed, succeeded) = (recorder.failed, recorder.attempts - recorder.failed);
        let rate = succeeded - mem::replace(&mut succeeded_before, succeeded);
        let phase = match Instant::now() {
            now if now < shared.measure_from => ", warming up",
            now if now >= shared.until => ", waiting for the last responses",
            _ => "",
        };
        eprintln!("{rate:>7} operations/s  {failed} failed{phase}");
    }
}
