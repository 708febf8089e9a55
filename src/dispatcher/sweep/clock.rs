//! Halts who ends things by the clock while Redis's clock cannot be believed. After a failover to a host with another
//! clock, every hold would lapse at once, and retention would remove what is still wanted.
//!
//! What is believed is in [`crate::driver::clock_monitor`]. Who knows a new clock to be right may restart the dispatcher instead
//! of waiting. Nobody starves meanwhile: a request short of funds ends those dead holds of its tenant itself that are over
//! by the old course too.

use std::sync::{Arc, Mutex, PoisonError};

use prometheus::{IntCounter, IntGauge, Registry};
use tokio::time::Instant;
use tracing::{debug, error, warn};

use crate::driver::clock_monitor::{Course, Verdict};
use crate::store::{Store, StoreError};

/// Metrics of the clock.
#[derive(Debug, Clone)]
pub struct ClockMetrics {
    /// `budget_clock_jumps_total`: jumps of Redis's clock by more than 5 s.
    pub jumps: IntCounter,
    /// `budget_clock_halted`: 1 while sweeping and retention are halted because of one.
    pub halted: IntGauge,
}

impl ClockMetrics {
    /// Creates the metrics and adds them to `registry`.
    ///
    /// # Errors
    /// When one of the names is taken.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        let metrics = Self {
            jumps: IntCounter::new(
                "budget_clock_jumps_total",
                "Jumps of Redis's clock by more than 5 s.",
            )?,
            halted: IntGauge::new(
                "budget_clock_halted",
                "1 while sweeping and retention are halted because Redis's clock jumped.",
            )?,
        };
        registry.register(Box::new(metrics.jumps.clone()))?;
        registry.register(Box::new(metrics.halted.clone()))?;
        Ok(metrics)
    }
}

/// Watches Redis's clock for all workers of a process; cheap to clone.
#[derive(Debug, Clone)]
pub struct ClockWatch {
    course: Arc<Mutex<Course>>,
    metrics: ClockMetrics,
}

impl ClockWatch {
    /// A watch that has seen nothing yet: it believes what it sees first.
    pub fn new(metrics: ClockMetrics) -> Self {
        Self {
            course: Arc::default(),
            metrics,
        }
    }

    /// Redis's time in milliseconds, or `None` while its clock cannot be believed. Nodes that are out of reach have no
    /// say: nothing of theirs can be ended either.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub async fn now_ms(&self, store: &Store) -> Result<Option<i64>, StoreError> {
        let sent = Instant::now();
        let times = store.node_times().await?;
        let times: Vec<i64> = times.into_iter().map(|(_, time_ms)| time_ms).collect();
        Ok(self.judge(sent, Instant::now(), &times))
    }

    /// Judges what the nodes told between two instants.
    fn judge(&self, sent: Instant, received: Instant, times: &[i64]) -> Option<i64> {
        let mut course = self.course.lock().unwrap_or_else(PoisonError::into_inner);
        let was_halted = course.is_in_doubt();
        let verdict = course.observe(sent, received, times);
        self.metrics
            .halted
            .set(i64::from(verdict != Verdict::Steady));
        match verdict {
            Verdict::Jumped { by_ms } => {
                self.metrics.jumps.inc();
                if was_halted {
                    debug!(by_ms, "Redis's clock jumped again, by {by_ms} ms");
                } else {
                    error!(
                        by_ms,
                        "Redis's clock jumped by {by_ms} ms, or its nodes disagree: sweeping and retention are halted \
                         until it is steady; restart the dispatcher if the new time is right"
                    );
                }
                None
            }
            Verdict::Halted => None,
            Verdict::Steady => {
                if was_halted {
                    warn!("Redis's clock is steady again: sweeping and retention go on");
                }
                times.first().copied()
            }
        }
    }
}
