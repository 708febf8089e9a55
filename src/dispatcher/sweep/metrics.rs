//! What the sweeper counts.

use prometheus::{Gauge, IntCounter, Registry};

/// Metrics of the sweeper.
#[derive(Debug, Clone)]
pub struct SweepMetrics {
    /// `budget_sweep_expired_total`: reservations that the sweeper expired.
    pub expired: IntCounter,
    /// `budget_sweep_quarantined_total`: corrupt records that it put into quarantine.
    pub quarantined: IntCounter,
    /// `budget_sweep_failures_total`: sweeps of one tenant that failed.
    pub failures: IntCounter,
    /// `budget_sweep_lag_seconds`: by how much the earliest due reservation was overdue at the last pass.
    pub lag_seconds: Gauge,
}

impl SweepMetrics {
    /// Creates the metrics and adds them to `registry`.
    ///
    /// # Errors
    /// When one of the names is taken.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let metrics = Self {
            expired: IntCounter::new(
                "budget_sweep_expired_total",
                "Reservations that the sweeper expired.",
            )?,
            quarantined: IntCounter::new(
                "budget_sweep_quarantined_total",
                "Corrupt records that the sweeper put into quarantine.",
            )?,
            failures: IntCounter::new(
                "budget_sweep_failures_total",
                "Sweeps of one tenant that failed.",
            )?,
            lag_seconds: Gauge::new(
                "budget_sweep_lag_seconds",
                "By how much the earliest due reservation was overdue at the last pass.",
            )?,
        };
        registry.register(Box::new(metrics.expired.clone()))?;
        registry.register(Box::new(metrics.quarantined.clone()))?;
        registry.register(Box::new(metrics.failures.clone()))?;
        registry.register(Box::new(metrics.lag_seconds.clone()))?;
        Ok(metrics)
    }
}
