//! Metrics of the process, read when they are rendered.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus::{
    Gauge, IntGauge, Registry, register_gauge_with_registry, register_int_gauge_vec_with_registry,
    register_int_gauge_with_registry,
};
use tokio::runtime::Handle;

#[derive(Debug, Clone)]
pub(super) struct ProcessMetrics {
    resident_memory: IntGauge,
    open_files: IntGauge,
    threads: IntGauge,
    tasks_alive: IntGauge,
    queue_depth: IntGauge,
}

impl ProcessMetrics {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let gauge =
            |name: &str, help: &str| register_int_gauge_with_registry!(name, help, registry);
        let start_time: Gauge = register_gauge_with_registry!(
            "process_start_time_seconds",
            "Start time of the process, since the epoch.",
            registry
        )?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        start_time.set(now.map_or(0.0, |now| now.as_secs_f64()));
        let build = register_int_gauge_vec_with_registry!(
            "budget_build_info",
            "Version of this binary; always 1.",
            &["version"],
            registry
        )?;
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        Ok(Self {
            resident_memory: gauge("process_resident_memory_bytes", "Resident memory.")?,
            open_files: gauge("process_open_fds", "Open files and sockets.")?,
            threads: gauge("process_threads", "Threads of the process.")?,
            tasks_alive: gauge("budget_tokio_tasks_alive", "Tasks that have not ended.")?,
            queue_depth: gauge("budget_tokio_queue_depth", "Tasks that wait for a thread.")?,
        })
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
