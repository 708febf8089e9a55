//! Runs the clients, all on one thread: one core makes some 80,000 requests a second, more than a Redis serves, and
//! leaves the others to the service.

use std::io::{IsTerminal, stderr};
use std::mem;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::interval;

use super::args::LoadArgs;
use super::client::{Books, Client, Shared};
use super::error::BenchError;
use super::provision::{Service, Tenant};
use super::requests::Requests;

/// What came of a run.
pub(super) struct Measured {
    pub books: Books,
    /// From the end of the warm-up to the last answer.
    pub elapsed: Duration,
    /// Processor time of the generator, as far as the system tells.
    pub generator_cpu: Option<Duration>,
}

/// Runs the load to its end. `progress` prints a line per second even where nobody watches.
pub(super) async fn run(
    service: &Service,
    tenant: &Tenant,
    load: &LoadArgs,
    progress: bool,
) -> Result<Measured, BenchError> {
    let base = &service.runtime.base;
    let headers = service.headers(tenant)?;
    let requests = Requests::new(base, headers, &tenant.id, load.scopes)?;
    let (target, load) = (Arc::clone(&service.runtime), load.clone());
    let progress = progress || stderr().is_terminal();
    let worker = move || {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let started = Instant::now();
        let cpu_before = thread_cpu();
        let measure_from = started + load.warmup;
        let shared = Arc::new(Shared {
            target,
            requests,
            workload: load.workload,
            run: format!("{:08x}", rand::random::<u32>()),
            measure_from,
            until: measure_from + load.duration,
            books: Mutex::default(),
        });
        runtime.block_on(all_clients(&shared, load.clients, progress));
        let cpu = thread_cpu().zip(cpu_before);
        Ok(Measured {
            books: shared.book(mem::take),
            elapsed: measure_from.elapsed(),
            generator_cpu: cpu.map(|(after, before)| after.saturating_sub(before)),
        })
    };
    let ended = spawn_blocking(worker).await;
    ended
        .map_err(|panic| BenchError::Generator(panic.into()))?
        .map_err(BenchError::Generator)
}

async fn all_clients(shared: &Arc<Shared>, clients: u16, progress: bool) {
    let mut running = JoinSet::new();
    for number in 0..clients {
        running.spawn(Client::new(Arc::clone(shared), number).run());
    }
    let watching = tokio::spawn(watch(Arc::clone(shared), progress));
    while let Some(ended) = running.join_next().await {
        // A client that failed takes with it what it was about to be told.
        shared.book(|books| books.recorder.unresolved += u64::from(ended.is_err()));
    }
    watching.abort();
}

/// Prints a line per second.
async fn watch(shared: Arc<Shared>, progress: bool) {
    if !progress {
        return;
    }
    let begun = Instant::now();
    let mut every_second = interval(Duration::from_secs(1));
    every_second.tick().await;
    let mut finished_before = 0;
    loop {
        every_second.tick().await;
        let (finished, failed) =
            shared.book(|books| (books.recorder.finished, books.recorder.failed));
        let phase = match Instant::now() {
            now if now < shared.measure_from => ", warming up",
            now if now >= shared.until => ", waiting for the last answers",
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

/// Processor time that the calling thread has taken so far.
#[cfg(unix)]
#[expect(unsafe_code, reason = "the standard library has no such clock")]
fn thread_cpu() -> Option<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for the write, and nothing keeps the pointer.
    let told = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let nanoseconds = u32::try_from(time.tv_nsec).ok()?;
    (told == 0).then(|| Duration::new(seconds, nanoseconds))
}

#[cfg(not(unix))]
fn thread_cpu() -> Option<Duration> {
    None
}
