//! Metrics of retention.

use prometheus::{
    Gauge, IntCounter, IntCounterVec, Registry, register_gauge_with_registry,
    register_int_counter_vec_with_registry, register_int_counter_with_registry,
};

/// Metrics of retention.
#[derive(Debug, Clone)]
pub struct RetentionMetrics {
    /// `budget_retention_removed_total{kind}`.
    pub removed: IntCounterVec,
    /// `budget_retention_failures_total`.
    pub failures: IntCounter,
    /// `budget_retention_lag_seconds`.
    pub lag_seconds: Gauge,
}

impl RetentionMetrics {
    /// Creates the metrics and adds them to `registry`.
    ///
    /// # Errors
    /// When one of the names is taken.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            removed: register_int_counter_vec_with_registry!(
                "budget_retention_removed_total",
                "Reservations, usage events, and entries of event logs, audit logs and outboxes removed.",
                &["kind"],
                registry
            )?,
            failures: register_int_counter_with_registry!(
                "budget_retention_failures_total",
                "Days of a tenant that retention failed to process.",
                registry
            )?,
            lag_seconds: register_gauge_with_registry!(
                "budget_retention_lag_seconds",
                "By how much the earliest due day was overdue at the last pass.",
                registry
            )?,
        })
    }

    pub(super) fn count(&self, kind: &str, removed: i64) {
        self.removed
            .with_label_values(&[kind])
            .inc_by(removed.unsigned_abs());
    }
}
