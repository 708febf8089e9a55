//! The worker that emits due events.

use budget_authority::dispatcher::sweep::{ClockMetrics, ClockWatch};
use budget_authority::dispatcher::{DetectorMetrics, DueEvents};
use budget_authority::store::Store;
use prometheus::Registry;

/// A worker whose rollups name `service-server`.
pub fn due_events(store: &Store) -> DueEvents {
    let registry = Registry::new();
    let clock = ClockMetrics::register(&registry).expect("a fresh registry");
    let detected = DetectorMetrics::register(&registry).expect("a fresh registry");
    let worker = DueEvents::new(
        store.clone(),
        ClockWatch::new(clock),
        "service-server",
        detected,
        &registry,
    );
    worker.expect("a fresh registry")
}
