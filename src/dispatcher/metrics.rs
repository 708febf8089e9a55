//! Metrics of the leases and of the views over all tenants; the other workers register their own.

use prometheus::{
    GaugeVec, IntCounterVec, IntGauge, Registry, register_gauge_vec_with_registry,
    register_int_counter_vec_with_registry, register_int_gauge_with_registry,
};

use crate::store::dispatcher::views::View;

/// Metrics of the leases.
#[derive(Debug, Clone)]
pub struct LeaseMetrics {
    /// `budget_dispatchers_alive`.
    pub dispatchers: IntGauge,
    /// `budget_partitions_leased`.
    pub partitions: IntGauge,
}

impl LeaseMetrics {
    /// Creates the metrics and adds them to `registry`.
    ///
    /// # Errors
    /// When one of the names is taken.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            dispatchers: register_int_gauge_with_registry!(
                "budget_dispatchers_alive",
                "Dispatchers that share the partitions, as this one sees it.",
                registry
            )?,
            partitions: register_int_gauge_with_registry!(
                "budget_partitions_leased",
                "Partitions that this dispatcher works on.",
                registry
            )?,
        })
    }
}

/// Metrics of the views over all tenants.
#[derive(Debug, Clone)]
pub struct ViewMetrics {
    /// `budget_view_lag_seconds{view}`, over all partitions of all dispatchers.
    pub lag_seconds: GaugeVec,
    /// `budget_view_rows_added_total{view}`.
    pub added: IntCounterVec,
    /// `budget_view_rows_skipped_total{view}`.
    pub skipped: IntCounterVec,
}

impl ViewMetrics {
    /// Creates the metrics and adds them to `registry`.
    ///
    /// # Errors
    /// When one of the names is taken.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            lag_seconds: register_gauge_vec_with_registry!(
                "budget_view_lag_seconds",
                "How far a view over all tenants was behind at the last pass.",
                &["view"],
                registry
            )?,
            added: register_int_counter_vec_with_registry!(
                "budget_view_rows_added_total",
                "Rows added to a view over all tenants.",
                &["view"],
                registry
            )?,
            skipped: register_int_counter_vec_with_registry!(
                "budget_view_rows_skipped_total",
                "Rows missing in a view over all tenants because what they show is damaged or gone.",
                &["view"],
                registry
            )?,
        })
    }

    /// Sets the lag of `view` to the time between `watermark_ms` and `now_ms`, both of Redis's clock.
    pub fn lag(&self, view: View, now_ms: i64, watermark_ms: i64) {
        let lag_ms = (now_ms - watermark_ms).max(0);
        self.lag_seconds
            .with_label_values(&[view.as_str()])
            .set(lag_ms as f64 / 1_000.0);
    }
}
