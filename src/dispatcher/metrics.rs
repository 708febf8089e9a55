//! Metrics of the leases, of the views over all tenants and of detected events; the other workers declare their own.

use crate::domain::event::types::EventType;
use crate::metrics::metrics;
use crate::store::dispatcher::views::View;

metrics! {
    /// Metrics of the leases.
    pub struct LeaseMetrics {
        /// Dispatchers that share the partitions, as this one sees it.
        pub dispatchers: IntGauge = "budget_dispatchers_alive",
        /// Partitions that this dispatcher works on.
        pub partitions: IntGauge = "budget_partitions_leased",
    }
}

metrics! {
    /// Metrics of the events about what is unusual.
    pub struct DetectorMetrics {
        /// Events that detectors emitted.
        pub emitted: IntCounterVec["detector"] = "budget_detector_events_total",
    }
}

metrics! {
    /// Metrics of the views over all tenants.
    pub struct ViewMetrics {
        /// How far a view over all tenants was behind at the last pass.
        pub lag_seconds: GaugeVec["view"] = "budget_view_lag_seconds",
        /// Rows added to a view over all tenants.
        pub added: IntCounterVec["view"] = "budget_view_rows_added_total",
        /// Rows missing in a view over all tenants because what they show is damaged or gone.
        pub skipped: IntCounterVec["view"] = "budget_view_rows_skipped_total",
        /// Events by type, as the view of events gets them.
        events: IntCounterVec["type"] = "budget_events_total",
    }
}

/// The label of events of types that this release does not know, and of custom ones.
const OTHER: &str = "other";

impl ViewMetrics {
    /// Makes the series of all types of events, so that each is there before its first event.
    pub fn make_events(&self) {
        for event_type in EventType::WORDS.iter().chain([&OTHER]) {
            self.events.with_label_values(&[*event_type]);
        }
    }

    /// Counts an event.
    pub fn event(&self, event_type: &str) {
        let event_type = EventType::parse(event_type).map_or(OTHER, EventType::as_str);
        self.events.with_label_values(&[event_type]).inc();
    }

    /// Sets the lag of `view` to the time between `watermark_ms` and `now_ms`, both of Redis's clock.
    pub fn lag(&self, view: View, now_ms: i64, watermark_ms: i64) {
        let lag_ms = (now_ms - watermark_ms).max(0);
        self.lag_seconds
            .with_label_values(&[view.as_str()])
            .set(lag_ms as f64 / 1_000.0);
    }
}
