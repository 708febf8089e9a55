//! Detectors: emit events when something is unusual. What they look at is counted where it happens.

mod burn_rates;
mod spikes;
mod store_watch;

pub use burn_rates::BurnRates;
pub use spikes::Spikes;
pub use store_watch::{LatencyLimit, PROBE_PERIOD, StoreWatch};

use crate::metrics::metrics;

metrics! {
    /// Metrics of the detectors.
    pub struct DetectorMetrics {
        /// Events that detectors emitted.
        emitted: IntCounterVec["detector"] = "budget_detector_events_total",
    }
}
