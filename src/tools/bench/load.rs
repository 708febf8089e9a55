//! Runs the clients, all on one thread: one core sends some 80,000 requests a second, more than a Redis serves, and leaves
//! the other cores to the service.

use std::io::{IsTerminal, stderr};
use std::mem;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::interval;

use super::args::LoadArgs;
use super::client::{Client, Shared};
use super::error::BenchError;
use super::recorder::Recorder;
use super::requests::Requests;
use super::service::{Service, Tenant};

/// The results of a run.
pub(super) struct Measured {
    pub recorder: Recorder,
    /// From the end of the warm-up to the last response.
    pub elapsed: Duration,
    /// Processor time of the generator; `None` where the system does not report it.
    pub generator_cpu: Option<Duration>,
}

/// Runs the load to its end. `progress` prints a line per second even without a terminal.
pub(super) async fn run(
    service: &Service,
    tenant: &Tenant,
    load: &LoadArgs,
    progress: bool,
) -> Result<Measured, BenchError> {
    let (url, headers) = (service.runtime.clone(), service.headers(tenant)?);
    let requests = Requests::new(url.into(), headers, &tenant.id, load.scopes);
    let load = load.clone();
    let progress = progress || stderr().is_terminal();
    on_one_thread(async move || {
        let started = Instant::now();
        let cpu_before = thread_cpu();
        let measure_from = started + load.warmup;
        let shared = Arc::new(Shared {
            requests,
            workload: load.workload,
            run: format!("{:08x}", rand::random::<u32>()),
            measure_from,
            until: measure_from + load.duration,
            recorder: Mutex::default(),
        });
        all_clients(&shared, load.clients, progress).await;
        let cpu = thread_cpu().zip(cpu_before);
        Ok(Measured {
            recorder: shared.record(mem::take),
            elapsed: measure_from.elapsed(),
            generator_cpu: cpu.map(|(after, before)| after.saturating_sub(before)),
        })
    })
    .await
}

/// Runs `work` on a thread of its own, which leaves the other cores to what is measured.
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

async fn all_clients(shared: &Arc<Shared>, clients: u16, progress: bool) {
    let mut running = JoinSet::new();
    for number in 0..clients {
        running.spawn(Client::new(Arc::clone(shared), number).run());
    }
    let watching = progress.then(|| tokio::spawn(print_progress(Arc::clone(shared))));
    while let Some(ended) = running.join_next().await {
        // The outcome of a client's last request is lost when the client panics.
        shared.record(|recorder| recorder.unresolved += u64::from(ended.is_err()));
    }
    if let Some(watching) = watching {
        watching.abort();
    }
}

/// Prints a line per second.
async fn print_progress(shared: Arc<Shared>) {
    let begun = Instant::now();
    let mut every_second = interval(Duration::from_secs(1));
    every_second.tick().await;
    let mut finished_before = 0;
    loop {
        every_second.tick().await;
        let (finished, failed) = shared.record(|recorder| (recorder.finished, recorder.failed));
        let phase = match Instant::now() {
            now if now < shared.measure_from => ", warming up",
            now if now >= shared.until => ", waiting for the last responses",
            _ => "",
        };
        eprintln!(
            "{:>4} s  {:>7} operations/s  {failed} failed{phase}",
            begun.elapsed().as_secs(),
            finished - finished_before,
        );
        finished_before = finished;
    }
}

/// Processor time that the calling thread has used.
#[cfg(unix)]
#[expect(unsafe_code, reason = "the standard library has no such clock")]
fn thread_cpu() -> Option<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for the write, and nothing keeps the pointer.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let nanoseconds = u32::try_from(time.tv_nsec).ok()?;
    (status == 0).then(|| Duration::new(seconds, nanoseconds))
}

#[cfg(not(unix))]
fn thread_cpu() -> Option<Duration> {
    None
}
