//! Metrics of the sweeper.

use prometheus::{
    Gauge, IntCounter, Registry, register_gauge_with_registry, register_int_counter_with_registry,
};

/// Metrics of the sweeper.
#[derive(Debug, Clone)]
pub struct SweepMetrics {
    /// `budget_sweep_expired_total`.
    pub expired: IntCounter,
    /// `budget_sweep_quarantined_total`.
    pub quarantined: IntCounter,
    /// `budget_sweep_failures_total`.
    pub failures: IntCounter,
    /// `budget_sweep_lag_seconds`.
    pub lag_seconds: Gauge,
}

impl SweepMetrics {
    /// Creates the metrics and adds them to `registry`.
    ///
    /// # Errors
    /// When one of the names is taken.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            expired: register_int_counter_with_registry!(
                "budget_sweep_expired_total",
                "Reservations that the sweeper expired.",
                registry
            )?,
            quarantined: register_int_counter_with_registry!(
                "budget_sweep_quarantined_total",
                "Corrupt records that the sweeper put into quarantine.",
                registry
            )?,
            failures: register_int_counter_with_registry!(
                "budget_sweep_failures_total",
                "Sweeps of one tenant that failed.",
                registry
            )?,
            lag_seconds: register_gauge_with_registry!(
                "budget_sweep_lag_seconds",
                "By how much the earliest due reservation was overdue at the last pass.",
                registry
            )?,
        })
    }
}
