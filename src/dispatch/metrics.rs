//! What the dispatcher counts about itself; its workers count their own work.

use prometheus::{IntCounterVec, IntGauge, Opts, Registry};

/// Leases and the health of the workers.
#[derive(Debug, Clone)]
pub struct LeaseMetrics {
    /// `budget_dispatchers_alive`: dispatchers that share the partitions, as this one sees it.
    pub dispatchers: IntGauge,
    /// `budget_partitions_leased`: partitions that this dispatcher works on.
    pub partitions: IntGauge,
    /// `budget_worker_failures_total{worker}`: passes of a worker that could not be finished.
    pub failures: IntCounterVec,
}

impl LeaseMetrics {
    /// Creates the metrics and adds them to `registry`.
    ///
    /// # Errors
    /// When one of the names is taken.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let metrics = Self {
            dispatchers: IntGauge::new(
                "budget_dispatchers_alive",
                "Dispatchers that share the partitions, as this one sees it.",
            )?,
            partitions: IntGauge::new(
                "budget_partitions_leased",
                "Partitions that this dispatcher works on.",
            )?,
            failures: IntCounterVec::new(
                Opts::new(
                    "budget_worker_failures_total",
                    "Passes of a worker that could not be finished.",
                ),
                &["worker"],
            )?,
        };
        registry.register(Box::new(metrics.dispatchers.clone()))?;
        registry.register(Box::new(metrics.partitions.clone()))?;
        registry.register(Box::new(metrics.failures.clone()))?;
        Ok(metrics)
    }
}
