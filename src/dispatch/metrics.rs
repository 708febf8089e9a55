//! What the dispatcher tells about its leases; its workers count their own work.

use prometheus::{IntGauge, Registry};

/// Leases.
#[derive(Debug, Clone)]
pub struct LeaseMetrics {
    /// `budget_dispatchers_alive`: dispatchers that share the partitions, as this one sees it.
    pub dispatchers: IntGauge,
    /// `budget_partitions_leased`: partitions that this dispatcher works on.
    pub partitions: IntGauge,
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
        };
        registry.register(Box::new(metrics.dispatchers.clone()))?;
        registry.register(Box::new(metrics.partitions.clone()))?;
        Ok(metrics)
    }
}
