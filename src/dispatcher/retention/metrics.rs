//! What retention counts.

use prometheus::{Gauge, IntCounter, IntCounterVec, Opts, Registry};

/// Metrics of retention.
#[derive(Debug, Clone)]
pub struct RetentionMetrics {
    /// `budget_retention_removed_total{kind}`: reservations, posts, events, audit or outbox entries removed.
    pub removed: IntCounterVec,
    /// `budget_retention_failures_total`: looks at one day that failed.
    pub failures: IntCounter,
    /// `budget_retention_lag_seconds`: by how much the earliest due look was overdue at the last pass.
    pub lag_seconds: Gauge,
}

impl RetentionMetrics {
    /// Creates the metrics and adds them to `registry`.
    ///
    /// # Errors
    /// When one of the names is taken.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let metrics = Self {
            removed: IntCounterVec::new(
                Opts::new(
                    "budget_retention_removed_total",
                    "Reservations, posts, and entries of event logs, audit logs and outboxes removed.",
                ),
                &["kind"],
            )?,
            failures: IntCounter::new(
                "budget_retention_failures_total",
                "Looks of retention at one day of a tenant that failed.",
            )?,
            lag_seconds: Gauge::new(
                "budget_retention_lag_seconds",
                "By how much the earliest due look was overdue at the last pass.",
            )?,
        };
        registry.register(Box::new(metrics.removed.clone()))?;
        registry.register(Box::new(metrics.failures.clone()))?;
        registry.register(Box::new(metrics.lag_seconds.clone()))?;
        Ok(metrics)
    }

    pub(super) fn count(&self, kind: &str, removed: i64) {
        self.removed
            .with_label_values(&[kind])
            .inc_by(removed.unsigned_abs());
    }
}
