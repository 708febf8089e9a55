//! What the dispatcher tells about its leases and the views that it keeps; its other workers count their own work.

use prometheus::{GaugeVec, IntCounterVec, IntGauge, Opts, Registry};

use crate::store::dispatcher::views::View;

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

/// Views over all tenants.
#[derive(Debug, Clone)]
pub struct ViewMetrics {
    /// `budget_view_lag_seconds{view}`: how far a view was behind at the last pass, over all partitions of all dispatchers.
    pub lag_seconds: GaugeVec,
    /// `budget_view_rows_total{view}`: rows added.
    pub rows: IntCounterVec,
    /// `budget_view_passed_over_total{view}`: what could not be added because it is damaged or gone.
    pub passed_over: IntCounterVec,
}

impl ViewMetrics {
    /// Creates the metrics and adds them to `registry`.
    ///
    /// # Errors
    /// When one of the names is taken.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let counter = |name: &str, help: &str| IntCounterVec::new(Opts::new(name, help), &["view"]);
        let metrics = Self {
            lag_seconds: GaugeVec::new(
                Opts::new(
                    "budget_view_lag_seconds",
                    "How far a view over all tenants was behind at the last pass.",
                ),
                &["view"],
            )?,
            rows: counter(
                "budget_view_rows_total",
                "Rows added to a view over all tenants.",
            )?,
            passed_over: counter(
                "budget_view_passed_over_total",
                "What could not be added to a view over all tenants because it is damaged or gone.",
            )?,
        };
        registry.register(Box::new(metrics.lag_seconds.clone()))?;
        registry.register(Box::new(metrics.rows.clone()))?;
        registry.register(Box::new(metrics.passed_over.clone()))?;
        Ok(metrics)
    }

    /// How far a view is behind, at a time of the store's clock; `watermark_ms` as the store answered it.
    pub fn lag(&self, view: View, now_ms: i64, watermark_ms: i64) {
        let lag_ms = (now_ms - watermark_ms).max(0);
        self.lag_seconds
            .with_label_values(&[view.as_str()])
            .set(lag_ms as f64 / 1_000.0);
    }
}
