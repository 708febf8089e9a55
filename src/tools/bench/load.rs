//! Runs the clients, all on one thread, which leaves the other cores to the service.

use std::io::{IsTerminal, stderr};
use std::mem;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hyper::header::{CONTENT_TYPE, HOST, HeaderValue};
use serde_json::json;
use tokio::runtime::Builder;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::interval;

use super::BenchError;
use super::args::LoadArgs;
use super::client::Shared;
use super::recorder::Recorder;
use super::service::{Service, Tenant};
use super::stack::cpu_time;
use crate::tools::client::header_value;

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
            shared.recorder().unresolved += u64::from(ended.is_err());
        }
        let elapsed = measure_from.elapsed();
        printing.inspect(|task| task.abort());
        let cpu = cpu_time("thread-self").zip(cpu_before);
        let mut recorder = mem::take(&mut *shared.recorder());
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
            let recorder = shared.recorder();
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
