//! Runs the clients, all on one thread, which leaves the other cores to the service, and reports what they measured.

use std::fmt;
use std::io::{IsTerminal, stderr};
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::json;
use tokio::runtime::Builder;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::interval;

use super::args::{LoadArgs, Workload};
use super::client::Shared;
use super::recorder::{Failure, Recorder, Summary, time};
use super::service::{Difference, Figures, Service, Tenant, disagreement};
use super::stack::cpu_time;
use super::{BenchError, BenchReport};
use crate::tools::client::header_value;
use crate::tools::table::Table;

/// One run of the load, and the ledgers afterwards.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub workload: Workload,
    pub clients: u16,
    pub scopes: u8,
    pub tenant: String,
    /// Measured time, without warm-up.
    pub seconds: f64,
    pub operations: Vec<Summary>,
    pub requests: u64,
    pub errors: Vec<Failure>,
    pub error_rate: f64,
    pub ledger: LedgerReport,
    /// Processor time of the generator per request; `None` where the system does not report it.
    pub generator_us_per_request: Option<f64>,
}

/// Whether the ledgers agree with the responses.
#[derive(Debug, Serialize)]
pub(super) struct LedgerReport {
    pub agrees: bool,
    /// The figures that every scope must have.
    expected: Figures,
    differences: Vec<Difference>,
    /// Operations whose outcome stayed unknown, so that their effect cannot be accounted for.
    unresolved: u64,
    /// Responses that contradict their request or an earlier response.
    contradictions: u64,
    first_contradiction: Option<String>,
}

impl Report {
    /// Runs the load with a tenant of its own, and compares the tenant's ledgers with the responses.
    pub async fn measure(
        service: &Service,
        load: &LoadArgs,
        progress: bool,
    ) -> Result<Self, BenchError> {
        let tenant = service.provision(load.scopes).await?;
        let recorder = run(service, &tenant, load, progress).await?;
        let differences = service.check(&tenant, recorder.change).await?;
        let is_certain = recorder.unresolved == 0 && recorder.contradictions == 0;
        let requests = recorder.attempts.max(1) as f64;
        let cpu_us = |cpu: Duration| cpu.as_secs_f64() * 1e6 / requests;
        Ok(Self {
            workload: load.workload,
            clients: load.clients,
            scopes: load.scopes,
            tenant: tenant.id,
            seconds: recorder.elapsed.as_secs_f64(),
            operations: recorder.summaries(),
            requests: recorder.attempts,
            errors: recorder.errors.into_values().collect(),
            error_rate: recorder.failed as f64 / requests,
            ledger: LedgerReport {
                agrees: differences.is_empty() && is_certain,
                expected: recorder.change.expected(),
                differences,
                unresolved: recorder.unresolved,
                contradictions: recorder.contradictions,
                first_contradiction: recorder.first_contradiction,
            },
            generator_us_per_request: recorder.generator_cpu.map(cpu_us),
        })
    }

    /// All operations together.
    pub fn all(&self) -> Summary {
        self.operations.last().cloned().unwrap_or_default()
    }
}

impl BenchReport for Report {
    fn is_well(&self, max_error_rate: f64) -> bool {
        self.ledger.agrees && self.error_rate <= max_error_rate
    }

    fn text(&self) -> String {
        let headings = "operation, count, per s, p50, p90, p99, p99.9, max";
        let mut table = Table::new(1, headings.split(", "));
        for it in &self.operations {
            let (count, rate) = (it.count.to_string(), format!("{:.0}", it.per_second));
            let times = [it.p50_us, it.p90_us, it.p99_us, it.p999_us, it.max_us].map(time);
            let row = [it.operation.clone(), count, rate];
            table.row(row.into_iter().chain(times));
        }
        let (name, scopes) = (clients(self.workload, self.clients), self.scopes);
        let (seconds, tenant) = (self.seconds, &self.tenant);
        let (rate, requests) = (self.error_rate * 100.0, self.requests);
        let mut text =
            format!("{name}, {scopes} scopes, {seconds:.1} s, tenant {tenant}\n\n{table}\n");
        text += &match self.errors.is_empty() {
            true => format!("errors: none in {requests} requests\n"),
            false => format!("errors: {rate:.3} % of {requests} requests\n"),
        };
        for error in &self.errors {
            let (status, count) = (error.status, error.count);
            let (code, message) = (&error.code, &error.message);
            text += &format!("  {count:>8}  {status:>3} {code}  {message}\n");
        }
        text += &self.ledger.text(scopes);
        if let Some(us) = self.generator_us_per_request {
            text += &format!("generator: {us:.1} µs of processor time per request\n");
        }
        text
    }
}

impl LedgerReport {
    fn text(&self, scopes: u8) -> String {
        if self.agrees {
            let (reserved, spent) = (self.expected["reserved"], self.expected["spent"]);
            return format!(
                "ledger: agrees to the unit in {scopes} scopes (reserved {reserved}, spent {spent})\n"
            );
        }
        let mut text = disagreement("ledger", &self.differences);
        if self.unresolved > 0 {
            text += &format!("  {} operations have no known outcome\n", self.unresolved);
        }
        if let Some(first) = &self.first_contradiction {
            let contradictions = self.contradictions;
            text += &format!("  {contradictions} responses contradict, first {first}\n");
        }
        text
    }
}

/// The name of a run.
pub(super) fn clients(what: impl fmt::Display, clients: u16) -> String {
    let plural = if clients == 1 { "" } else { "s" };
    format!("{what}, {clients} client{plural}")
}

/// Runs the load to its end. `progress` prints a line per second even without a terminal.
pub(super) async fn run(
    service: &Service,
    tenant: &Tenant,
    load: &LoadArgs,
    progress: bool,
) -> Result<Recorder, BenchError> {
    let url = service.runtime.clone();
    let key_header = service.dialect.header_names().api_key.clone();
    let json = HeaderValue::from_static("application/json");
    let host = HeaderValue::from_str(url.authority()).expect("an authority is ASCII");
    let headers = [
        (HOST, host),
        (CONTENT_TYPE, json),
        (key_header, header_value(&tenant.key)?),
    ];
    let action = json!({"kind": "llm.completion", "name": "bench:model"});
    let subject = format!(r#","subject":{},"action":{action}"#, tenant.subject);
    let load = load.clone();
    let progress = progress || stderr().is_terminal();
    on_one_thread(async move || {
        let cpu_before = cpu_time("thread-self");
        let measure_from = Instant::now() + load.warmup;
        let shared = Arc::new(Shared {
            url,
            headers: headers.into_iter().collect(),
            subject,
            workload: load.workload,
            run: format!("{:08x}", rand::random::<u32>()),
            measure_from,
            until: measure_from + load.duration,
            recorder: Mutex::default(),
        });
        let mut clients = JoinSet::new();
        for number in 0..load.clients {
            clients.spawn(Arc::clone(&shared).run_client(number.into()));
        }
        let printing = progress.then(|| tokio::spawn(print_progress(Arc::clone(&shared))));
        while let Some(ended) = clients.join_next().await {
            // The outcome of a client's last request is lost when the client panics.
            shared.recorder.lock().unresolved += u64::from(ended.is_err());
        }
        let elapsed = measure_from.elapsed();
        printing.inspect(|task| task.abort());
        let cpu = cpu_time("thread-self").zip(cpu_before);
        let mut recorder = mem::take(&mut *shared.recorder.lock());
        recorder.elapsed = elapsed;
        recorder.generator_cpu = cpu.map(|(after, before)| after.saturating_sub(before));
        Ok(recorder)
    })
    .await
}

/// Runs `work` on a thread of its own.
pub(super) async fn on_one_thread<T: Send + 'static>(
    work: impl AsyncFnOnce() -> Result<T, BenchError> + Send + 'static,
) -> Result<T, BenchError> {
    let worker = move || {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.map_err(BenchError::Generator)?.block_on(work())
    };
    let ended = spawn_blocking(worker).await;
    ended.map_err(|panic| BenchError::Generator(panic.into()))?
}

/// Prints a line per second.
async fn print_progress(shared: Arc<Shared>) {
    let mut every_second = interval(Duration::from_secs(1));
    every_second.tick().await;
    let mut finished_before = 0;
    for second in 1.. {
        every_second.tick().await;
        let (finished, failed) = {
            let recorder = shared.recorder.lock();
            (recorder.finished, recorder.failed)
        };
        let phase = match Instant::now() {
            now if now < shared.measure_from => ", warming up",
            now if now >= shared.until => ", waiting for the last responses",
            _ => "",
        };
        let rate = finished - finished_before;
        eprintln!("{second:>4} s  {rate:>7} operations/s  {failed} failed{phase}");
        finished_before = finished;
    }
}
