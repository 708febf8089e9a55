//! The dispatcher: whatever follows from time. Any number of them run at once and share the partitions by leases.
//!
//! Each worker is a value whose `run_once()` does one bounded pass and says what it found; only [`start`] knows timers.
//! A dispatcher can be killed at any moment: after [`ALIVE`] others take its partitions over and go on.

mod bulk_actions;
mod closings;
mod key_expiry;
mod leases;
mod metrics;
pub mod retention;
mod rollups;
mod sealer;
mod shares;
pub mod sweep;
mod thresholds;
mod views;
pub mod workers;

use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use tokio::sync::Mutex;

pub use crate::dispatcher::bulk_actions::{Bulks, Resumed};
pub use crate::dispatcher::rollups::{Flush, Sums};
pub use closings::{Closings, Reconciled};
pub use key_expiry::{Expired, KeyExpiry};
pub use leases::{ALIVE, BEAT, LEASE, LeaseKeeper, Leases, Renewal};
pub use metrics::{LeaseMetrics, ViewMetrics};
pub use sealer::{Pass as SealPass, Sealer, Tail};
pub use thresholds::ThresholdCopies;
pub use views::{EventFollower, Follow};

use crate::config::RetentionConfig;
use crate::dispatcher::retention::{Periods, Retention, RetentionMetrics};
use crate::dispatcher::sweep::{ClockMetrics, ClockWatch, SweepMetrics, Sweeper};
use crate::dispatcher::workers::{Pass, Workers};
use crate::domain::dialect::Dialect;
use crate::shutdown::Shutdown;
use crate::store::Store;
use crate::telemetry::Telemetry;

/// How soon to try again after a failure: Redis may be back any moment, and holds are waiting.
const RETRY: Duration = Duration::from_millis(200);

/// A dispatcher at work.
pub struct Dispatcher {
    workers: Workers,
    keeper: Arc<LeaseKeeper>,
}

/// Starts the workers of a dispatcher; they end with `shutdown`.
///
/// # Errors
/// When a metric's name is taken in the registry: one dispatcher per process.
pub fn start(
    store: &Store,
    dialect: Dialect,
    retention: &RetentionConfig,
    telemetry: &Telemetry,
    shutdown: &Shutdown,
) -> prometheus::Result<Dispatcher> {
    let registry = telemetry.registry();
    let mut workers = Workers::new(telemetry, shutdown.clone());
    let keeper = keeper(store, registry)?;
    let leases = keeper.leases();
    let clock = ClockWatch::new(ClockMetrics::register(registry)?);

    let renewing = Arc::clone(&keeper);
    // The pause after a failure, which grows tenfold at most; a pass that went well says itself when to come back.
    workers.repeat("leases", RETRY, move || {
        let keeper = Arc::clone(&renewing);
        async move {
            let outcome = keeper.run_once().await;
            let pause = keeper.pause_after(&outcome);
            outcome.map(|_| Pass::Rest(pause))
        }
    });

    let metrics = SweepMetrics::register(registry)?;
    let sweeper = Sweeper::new(store.clone(), clock.clone(), metrics);
    let (sweeper, held) = (Arc::new(Mutex::new(sweeper)), leases.clone());
    workers.repeat("sweep", RETRY, move || {
        let (sweeper, held) = (Arc::clone(&sweeper), held.clone());
        async move {
            let mut sweeper = sweeper.lock().await;
            let sweep = sweeper
                .run_once(&held.current(), |lease| held.lost(lease))
                .await?;
            Ok::<_, crate::store::StoreError>(rest(sweep.pause()))
        }
    });

    let view_metrics = ViewMetrics::register(registry)?;
    let follower = EventFollower::new(store.clone(), retention.events, view_metrics.clone());
    let (follower, held) = (Arc::new(follower), leases.clone());
    workers.repeat("views", RETRY, move || {
        let (follower, held) = (Arc::clone(&follower), held.clone());
        async move {
            let follow = follower.run_once(&held.current()).await?;
            Ok::<_, crate::store::StoreError>(rest(follow.pause()))
        }
    });

    let sealer = Sealer::new(store.clone(), retention.audit, view_metrics, registry)?;
    let (sealer, held) = (Arc::new(sealer), leases.clone());
    workers.repeat("sealer", sealer::PERIOD, move || {
        let (sealer, held) = (Arc::clone(&sealer), held.clone());
        async move {
            let pass = sealer
                .run_once(&held.current(), |lease| held.lost(lease))
                .await?;
            let pass = if pass.more { Pass::Full } else { Pass::Idle };
            Ok::<_, crate::store::StoreError>(pass)
        }
    });

    let periods = Periods {
        records: retention.reservations,
        events: retention.events,
        audit: retention.audit,
        outbox: retention.outbox,
    };
    let expiry = KeyExpiry::new(store.clone(), clock.clone(), registry)?;
    let (expiry, held) = (Arc::new(expiry), leases.clone());
    workers.repeat("key_expiry", key_expiry::PERIOD, move || {
        let (expiry, held) = (Arc::clone(&expiry), held.clone());
        async move {
            let pass = expiry
                .run_once(&held.current(), |lease| held.lost(lease))
                .await?;
            let pass = if pass.more { Pass::Full } else { Pass::Idle };
            Ok::<_, crate::store::StoreError>(pass)
        }
    });

    let metrics = RetentionMetrics::register(registry)?;
    let retention = Arc::new(Retention::new(store.clone(), clock, periods, metrics));
    let held = leases.clone();
    workers.repeat("retention", Duration::from_secs(10), move || {
        let (retention, held) = (Arc::clone(&retention), held.clone());
        async move {
            let pass = retention
                .run_once(&held.current(), |lease| held.lost(lease))
                .await?;
            Ok::<_, crate::store::StoreError>(rest(pass.pause()))
        }
    });

    let closings = Arc::new(Closings::new(store.clone(), registry)?);
    let held = leases.clone();
    workers.repeat("closings", closings::PERIOD, move || {
        let (closings, held) = (Arc::clone(&closings), held.clone());
        async move {
            let pass = closings
                .run_once(&held.current(), |lease| held.lost(lease))
                .await?;
            let pass = if pass.more { Pass::Full } else { Pass::Idle };
            Ok::<_, crate::store::StoreError>(pass)
        }
    });

    let bulks = Arc::new(Bulks::new(store.clone(), registry)?);
    let held = leases.clone();
    workers.repeat(
        "bulk_actions",
        crate::dispatcher::bulk_actions::PERIOD,
        move || {
            let (bulks, held) = (Arc::clone(&bulks), held.clone());
            async move {
                let pass = bulks.run_once(&held.current()).await?;
                let pass = if pass.more { Pass::Full } else { Pass::Idle };
                Ok::<_, crate::store::StoreError>(pass)
            }
        },
    );

    let (copies, held) = (
        Arc::new(ThresholdCopies::new(store.clone())),
        leases.clone(),
    );
    workers.repeat("thresholds", thresholds::PERIOD, move || {
        let (copies, held) = (Arc::clone(&copies), held.clone());
        async move { copies.run_once(&held.current()).await.map(|_| Pass::Idle) }
    });

    let sums = Arc::new(Sums::new(
        store.clone(),
        dialect.words().runtime_source,
        registry,
    )?);
    workers.repeat("sums", crate::dispatcher::rollups::PERIOD, move || {
        let (sums, held) = (Arc::clone(&sums), leases.clone());
        async move {
            let flush = sums
                .run_once(&held.current(), |lease| held.lost(lease))
                .await?;
            let pass = if flush.more { Pass::Full } else { Pass::Idle };
            Ok::<_, crate::store::StoreError>(pass)
        }
    });
    Ok(Dispatcher { workers, keeper })
}

impl Dispatcher {
    /// Waits until the present pass of each worker is over, at most `grace`; then gives the leases back.
    pub async fn finished(self, grace: Duration) {
        self.workers.finished(grace).await;
        self.keeper.leave().await;
    }
}

fn keeper(store: &Store, registry: &Registry) -> prometheus::Result<Arc<LeaseKeeper>> {
    // The host helps people, the random part makes the name unique.
    let host = std::env::var("HOSTNAME").unwrap_or_default();
    let host: String = host
        .chars()
        .filter(char::is_ascii_graphic)
        .take(64)
        .collect();
    let name = format!(
        "{host}-{}-{:08x}",
        std::process::id(),
        rand::random::<u32>()
    );
    let metrics = LeaseMetrics::register(registry)?;
    Ok(Arc::new(LeaseKeeper::new(store.clone(), name, metrics)))
}

fn rest(pause: Duration) -> Pass {
    match pause.is_zero() {
        true => Pass::Full,
        false => Pass::Rest(pause),
    }
}
