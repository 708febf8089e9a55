//! Metrics of the process, read when they are rendered.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::Registry;
use tokio::runtime::Handle;

use crate::metrics::metrics;

metrics! {
    /// Metrics of the process.
    pub(super) struct ProcessMetrics {
        /// Start time of the process, since the epoch.
        start_time: Gauge = "process_start_time_seconds",
        /// Version of this binary; always 1.
        build: IntGaugeVec["version"] = "budget_build_info",
        /// Resident memory.
        resident_memory: IntGauge = "process_resident_memory_bytes",
        /// Open files and sockets.
        open_files: IntGauge = "process_open_fds",
        /// Threads of the process.
        threads: IntGauge = "process_threads",
        /// Tasks that have not ended.
        tasks_alive: IntGauge = "budget_tokio_tasks_alive",
        /// Tasks that wait for a thread.
        queue_depth: IntGauge = "budget_tokio_queue_depth",
    }
}

impl ProcessMetrics {
    /// The metrics of a process that starts now.
    pub(super) fn start(registry: &Registry) -> prometheus::Result<Self> {
        let metrics = Self::register(registry)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let start_time = now.map_or(0.0, |now| now.as_secs_f64());
        metrics.start_time.set(start_time);
        let version = [env!("CARGO_PKG_VERSION")];
        metrics.build.with_label_values(&version).set(1);
        Ok(metrics)
    }

    /// Reads the current values; they stay 0 on a system without `/proc`.
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
