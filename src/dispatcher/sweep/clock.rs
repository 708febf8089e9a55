//! Halts sweeping, key expiry and retention while Redis's clock is in doubt. After a failover to a host with another
//! clock, all holds would expire at once, and retention would remove data too early.
//!
//! [`crate::driver::clock_monitor`] detects the jumps. An operator who knows that the new clock is right may restart the
//! dispatcher instead of waiting. Meanwhile a request that lacks funds expires those holds of its tenant that are also over
//! by the old time.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{debug, error, warn};

use crate::driver::clock_monitor::{ClockMonitor, ClockState};
use crate::metrics::metrics;
use crate::store::{Store, StoreError};

metrics! {
    /// Metrics of the clock.
    pub struct ClockMetrics {
        /// Jumps of Redis's clock by more than 5 s.
        pub jumps: IntCounter = "budget_clock_jumps_total",
        /// 1 while sweeping, key expiry and retention are halted because Redis's clock jumped.
        pub halted: IntGauge = "budget_clock_halted",
    }
}

/// Watches Redis's clock for all workers of a process; cheap to clone.
#[derive(Debug, Clone)]
pub struct ClockWatch {
    monitor: Arc<Mutex<ClockMonitor>>,
    metrics: ClockMetrics,
}

impl ClockWatch {
    /// A watch that trusts the first time that it reads.
    pub fn new(metrics: ClockMetrics) -> Self {
        Self {
            monitor: Arc::default(),
            metrics,
        }
    }

    /// Redis's time in milliseconds, or `None` while its clock is in doubt. Nodes that are out of reach do not count,
    /// because nothing of theirs can expire either.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub async fn now_ms(&self, store: &Store) -> Result<Option<i64>, StoreError> {
        let (now_ms, is_in_doubt) = self.time(store).await?;
        Ok((!is_in_doubt).then_some(now_ms))
    }

    /// Redis's time in milliseconds, and whether it is in doubt.
    ///
    /// # Errors
    /// As for [`ClockWatch::now_ms`].
    pub async fn time(&self, store: &Store) -> Result<(i64, bool), StoreError> {
        let sent = Instant::now();
        let times = store.node_times().await?;
        let times: Vec<i64> = times.into_iter().map(|(_, time_ms)| time_ms).collect();
        let now_ms = self.judge(sent, Instant::now(), &times);
        let first = times.first().copied().unwrap_or(0);
        Ok((now_ms.unwrap_or(first), now_ms.is_none()))
    }

    /// Redis's time as its clock should read now, whatever it has done since it was last read; `None` while it is in doubt.
    pub fn expected_ms(&self) -> Option<i64> {
        self.monitor.lock().expected_ms(Instant::now())
    }

    /// Whether Redis's clock was seen to jump within this time.
    pub fn jumped_within(&self, age: Duration) -> bool {
        let monitor = self.monitor.lock();
        let jumped = monitor.jumped_at();
        jumped.is_some_and(|at| at.elapsed() < age)
    }

    /// The first node's time, unless the times that the nodes read between two instants put the clock in doubt.
    fn judge(&self, sent: Instant, received: Instant, times: &[i64]) -> Option<i64> {
        let mut monitor = self.monitor.lock();
        let was_halted = monitor.is_in_doubt();
        let state = monitor.observe(sent, received, times);
        self.metrics
            .halted
            .set(i64::from(state != ClockState::Steady));
        match state {
            ClockState::Jumped { by_ms } => {
                self.metrics.jumps.inc();
                if was_halted {
                    debug!(by_ms, "Redis's clock jumped again, by {by_ms} ms");
                } else {
                    error!(
                        by_ms,
                        "Redis's clock jumped by {by_ms} ms, or its nodes disagree: sweeping, key expiry and retention \
                         halt until it is steady; restart the dispatcher if the new time is right"
                    );
                }
                None
            }
            ClockState::InDoubt => None,
            ClockState::Steady => {
                if was_halted {
                    warn!(
                        "Redis's clock is steady again: sweeping, key expiry and retention resume"
                    );
                }
                times.first().copied()
            }
        }
    }
}
