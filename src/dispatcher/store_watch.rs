//! Emits events about the store: that it was out of reach, once it is back, and that it is slow.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::metrics::DetectorMetrics;
use super::workers::{Next, lease_worker};
use crate::domain::cause::Cause;
use crate::domain::moment::Moment;
use crate::store::dispatcher::due_events::StoreEvent;
use crate::store::{Store, StoreError};

/// How often the store is probed.
pub const PROBE_PERIOD: Duration = Duration::from_millis(250);

/// How long a probe may take, and how long an outage lasts at least.
const OUTAGE: Duration = Duration::from_secs(1);

/// All dispatchers together report one outage in this time.
const OUTAGE_PAUSE: Duration = Duration::from_secs(60);

/// Round trips below which a window is not judged.
const ROUND_TRIPS_MIN: usize = 20;

/// Limit above which the store counts as slow.
#[derive(Debug, Clone, Copy)]
pub struct LatencyLimit {
    /// The 99th percentile of round trips that is exceeded.
    pub above: Duration,
    /// The time over which it is taken.
    pub window: Duration,
}

impl Default for LatencyLimit {
    fn default() -> Self {
        Self {
            // An eighth of the default deadline of a request, which takes few round trips.
            above: Duration::from_millis(250),
            window: Duration::from_secs(60),
        }
    }
}

/// Probes the store.
pub struct StoreWatch {
    store: Store,
    source: &'static str,
    limit: LatencyLimit,
    metrics: DetectorMetrics,
    /// Start of the present outage.
    lost: Option<Instant>,
    /// Counted changes of a primary when the store was last reachable.
    primary_changes: u64,
    /// An outage that is over and not reported yet: its beginning and its end.
    over: Option<(Instant, Instant)>,
    window: Instant,
    round_trips: Vec<Duration>,
}

impl StoreWatch {
    /// A watch whose events name `source`, the part of the service that emits them.
    pub fn new(
        store: Store,
        source: &'static str,
        limit: LatencyLimit,
        metrics: DetectorMetrics,
    ) -> Self {
        Self {
            store,
            source,
            limit,
            metrics,
            lost: None,
            primary_changes: 0,
            over: None,
            window: Instant::now(),
            round_trips: Vec::new(),
        }
    }

    /// Probes the store once, and reports what is over.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be reported; it is with a later probe. That the store is out of reach is no error here.
    pub async fn run_once(&mut self) -> Result<(), StoreError> {
        let sent = Instant::now();
        if self.store.probe(OUTAGE).await.is_err() {
            self.lost.get_or_insert(sent);
            self.round_trips.clear();
            return Ok(());
        }
        let now = Instant::now();
        if let Some(since) = self.lost.take() {
            self.window = now;
            if now - since > OUTAGE {
                self.over = Some((since, now));
            }
        }
        if let Some((since, until)) = self.over {
            self.report_outage(since, until).await?;
            self.over = None;
        }
        self.primary_changes = self.store.metrics().primary_changes.get();
        self.round_trips.push(now - sent);
        if now - self.window >= self.limit.window {
            self.judge_latency(now).await?;
        }
        Ok(())
    }

    async fn report_outage(&self, since: Instant, until: Instant) -> Result<(), StoreError> {
        // The store's clock may have been another one meanwhile.
        self.store.node_times().await?;
        self.store.look_at_memory(OUTAGE).await;
        let changed = self.store.metrics().primary_changes.get() > self.primary_changes;
        let ago_ms = i64::try_from(since.elapsed().as_millis()).unwrap_or(0);
        let since_ms = self.store.clock().now_ms() - ago_ms;
        let since_at = Moment::from_ms(since_ms).map(|since| since.to_string());
        let lasted_ms = u64::try_from((until - since).as_millis()).unwrap_or(u64::MAX);
        let lost = json!({"since": since_at});
        let restored =
            json!({"since": since_at, "duration_ms": lasted_ms, "primary_changed": changed});
        let events = [
            (
                ("system.store_connection_lost", "The store was out of reach"),
                ("critical", lost.to_string()),
            ),
            (
                ("system.store_connection_restored", "The store is back"),
                ("info", restored.to_string()),
            ),
        ];
        self.report("outage", OUTAGE_PAUSE, &events).await
    }

    /// Looks at the round trips of a window, and begins the next one.
    async fn judge_latency(&mut self, now: Instant) -> Result<(), StoreError> {
        let mut round_trips = std::mem::take(&mut self.round_trips);
        self.window = now;
        round_trips.sort_unstable();
        let rank = (round_trips.len() * 99).div_ceil(100).saturating_sub(1);
        let p99 = round_trips.get(rank).copied().unwrap_or_default();
        let LatencyLimit { above, window } = self.limit;
        if p99 <= above || round_trips.len() < ROUND_TRIPS_MIN {
            return Ok(());
        }
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let details = json!({
            "operation": "PING", "p99_ms": ms(p99), "threshold_ms": ms(above), "window_seconds": window.as_secs(),
        });
        let event = (
            ("system.high_latency", "The store is slow"),
            ("warning", details.to_string()),
        );
        self.report("latency", window, &[event]).await
    }

    async fn report(
        &self,
        kind: &str,
        pause: Duration,
        events: &[StoreEvent],
    ) -> Result<(), StoreError> {
        let cause = Cause {
            source: self.source,
            ..Cause::detector()
        };
        let emitted = self
            .store
            .report_store(kind, pause, &cause.lines(), events)
            .await?;
        let counter = self.metrics.emitted.with_label_values(&["store"]);
        counter.inc_by(emitted.unsigned_abs());
        Ok(())
    }
}

lease_worker!(
    StoreWatch: "store_watch", PROBE_PERIOD,
    |worker, _, _| worker.run_once().await.map(|()| Next::Idle)?
);
