//! Detectors: emit events when something is unusual. What they look at is counted where it happens.

mod spikes;

pub use spikes::Spikes;

use crate::metrics::metrics;

metrics! {
    /// Metrics of the detectors.
    pub struct DetectorMetrics {
        /// Events that detectors emitted.
        emitted: IntCounterVec["detector"] = "budget_detector_events_total",
    }
}
