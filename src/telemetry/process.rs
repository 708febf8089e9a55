//! What the process itself takes, read when somebody asks.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::{Gauge, IntGauge, IntGaugeVec, Opts, Registry};
use tokio::runtime::Handle;

#[derive(Debug, Clone)]
pub(super) struct ProcessMetrics {
    /// `process_resident_memory_bytes`: memory that is in RAM.
    resident_memory: IntGauge,
    /// `process_open_fds`: open files and sockets.
    open_files: IntGauge,
    /// `process_threads`: threads.
    threads: IntGauge,
    /// `process_start_time_seconds`: when the process started, since the epoch.
    _start_time: Gauge,
    /// `budget_tokio_tasks_alive`: tasks that have not ended.
    tasks_alive: IntGauge,
    /// `budget_tokio_queue_depth`: tasks that wait for a worker.
    queue_depth: IntGauge,
}

impl ProcessMetrics {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let gauge = |name: &str, help: &str| {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        let start_time = Gauge::new(
            "process_start_time_seconds",
            "When the process started, since the epoch.",
        )?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        start_time.set(now.map_or(0.0, |now| now.as_secs_f64()));
        registry.register(Box::new(start_time.clone()))?;
        let build = Opts::new("budget_build_info", "Version of this binary; always 1.");
        let build = IntGaugeVec::new(build, &["version"])?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        registry.register(Box::new(build))?;
        Ok(Self {
            resident_memory: gauge("process_resident_memory_bytes", "Memory that is in RAM.")?,
            open_files: gauge("process_open_fds", "Open files and sockets.")?,
            threads: gauge("process_threads", "Threads of the process.")?,
            _start_time: start_time,
            tasks_alive: gauge("budget_tokio_tasks_alive", "Tasks that have not ended.")?,
            queue_depth: gauge("budget_tokio_queue_depth", "Tasks that wait for a worker.")?,
        })
    }

    /// Reads the present values; where the system has no `/proc`, they stay 0.
    pub(super) fn update(&self) {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_ascii_whitespace().next()?.parse::<i64>().ok()
        };
        self.resident_memory
            .set(value("VmRSS:").unwrap_or(0) * 1024);
        self.threads.set(value("Threads:").unwrap_or(0));
        let files = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        self.open_files.set(files as i64);
        if let Ok(handle) = Handle::try_current() {
            let runtime = handle.metrics();
            self.tasks_alive.set(runtime.num_alive_tasks() as i64);
            self.queue_depth.set(runtime.global_queue_depth() as i64);
        }
    }
}
