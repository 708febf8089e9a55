//! The dispatcher: all background work. Any number of dispatchers run at once and share the partitions by leases.
//!
//! Each worker has a `run_once()` that does one bounded pass and reports what it did; only [`workers`] knows timers. A
//! dispatcher may be killed at any moment: after [`ALIVE`] the others take its partitions over and resume its work.

mod budget_gauges;
mod deliveries;
mod due;
mod due_events;
mod leases;
mod metrics;
mod outboxes;
pub mod retention;
mod sealer;
mod signer;
mod store_watch;
pub mod sweep;
mod turns;
mod unfinished_work;
mod unknown_callers;
mod usage_merging;
mod views;
pub mod workers;

use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use tokio::task::JoinHandle;

pub use budget_gauges::BudgetGauges;
pub use deliveries::{
    Backfill, BackfillPass, CONNECTIONS_MAX, DeliverySettings, DeliverySignal, DeliveryWorker,
    FanOut, FanOutPass, IN_FLIGHT_MAX,
};
pub use due::Pass;
pub use due_events::DueEvents;
pub use leases::{ALIVE, HEARTBEAT, LEASE, LeaseKeeper, Leases, Renewal};
pub use metrics::{DetectorMetrics, LeaseMetrics, ViewMetrics};
pub use outboxes::Outboxes;
pub use sealer::{SealPass, Sealer, Tail};
pub use signer::BacklogGauge;
pub use store_watch::{LatencyLimit, PROBE_PERIOD, StoreWatch};
pub use turns::Turns;
pub use unfinished_work::{ThresholdCopies, UnfinishedWork};
pub use views::{EventFollower, ViewPass};

use crate::admin::webhooks::Webhooks;
use crate::config::{RetentionConfig, SigningConfig, TenantList};
use crate::domain::dialect::Dialect;
use crate::domain::seal::SealingKeys;
use crate::egress::Egress;
use crate::evidence::Issuing;
use crate::evidence::signing::{Signer, SignerMetrics};
use crate::shutdown::Shutdown;
use crate::store::Store;
use crate::telemetry::Telemetry;
use retention::{Retention, RetentionMetrics};
use sweep::{ClockMetrics, ClockWatch, SweepMetrics, Sweeper};
use workers::{Next, Workers};

/// The pause of the lease keeper after a first failure.
const LEASE_RETRY: Duration = Duration::from_millis(200);

/// Dispatcher settings.
pub struct Settings {
    /// Vendor names.
    pub dialect: Dialect,
    /// How long data is kept.
    pub retention: RetentionConfig,
    /// The keys that encrypt the secrets of webhooks.
    pub secrets: SealingKeys,
    /// The way to receivers.
    pub egress: Egress,
    /// Deliveries that may be in flight at once.
    pub in_flight: usize,
    /// First attempts of a lane that may be in flight at once.
    pub lane_concurrency: u32,
    /// Deliveries of one tenant's events to one host in a second; 0: any number.
    pub host_rate: u32,
    /// Tenants whose budgets have gauges.
    pub metrics_tenants: TenantList,
    /// Evidence that is to be signed, and who issues it; `None` while it is off.
    pub evidence: Option<(SigningConfig, Issuing)>,
}

/// A running dispatcher.
pub struct Dispatcher {
    workers: Workers,
    deliveries: JoinHandle<()>,
    keeper: Arc<LeaseKeeper>,
}

/// Starts the workers of a dispatcher; they end with `shutdown`.
///
/// # Errors
/// When a metric's name is taken in the registry, so at most one dispatcher runs per process.
pub fn start(
    store: &Store,
    settings: Settings,
    telemetry: &Telemetry,
    shutdown: &Shutdown,
) -> prometheus::Result<Dispatcher> {
    let words = settings.dialect.words();
    // Only replays need the retention.
    let webhooks = Webhooks::new(store.clone(), settings.secrets, settings.egress, words, 0);
    let (registry, store) = (telemetry.registry(), || store.clone());
    let clock = ClockWatch::new(ClockMetrics::register(registry)?);
    let views = ViewMetrics::register(registry)?;
    let outboxes = Arc::new(Outboxes::new(store()));

    let mut workers = Workers::new(telemetry, shutdown.clone())?;
    let keeper = keeper(store(), registry)?;
    let leases = keeper.leases();
    let queued = Arc::new(DeliverySignal::default());
    let (renewing, gaining) = (Arc::clone(&keeper), Arc::clone(&queued));
    workers.repeat("leases", LEASE_RETRY, move || {
        let (keeper, queued) = (Arc::clone(&renewing), Arc::clone(&gaining));
        async move {
            let outcome = keeper.run_once().await;
            if outcome.as_ref().is_ok_and(|renewal| renewal.gained) {
                queued.request_full_poll();
            }
            let pause = keeper.pause_after(&outcome);
            outcome.map(|_| Next::After(pause))
        }
    });
    let sweeper = Sweeper::new(store(), clock.clone(), SweepMetrics::register(registry)?);
    workers.start(sweeper, &leases);
    let (events_kept, followed) = (settings.retention.events, Arc::clone(&outboxes));
    let follower = EventFollower::new(store(), followed, events_kept, views.clone());
    workers.start(follower, &leases);
    let sealer = Sealer::new(store(), settings.retention.audit, views, registry)?;
    workers.start(sealer, &leases);
    let removal = RetentionMetrics::register(registry)?;
    let removal = Retention::new(store(), clock.clone(), settings.retention, removal);
    workers.start(removal, &leases);
    workers.start(UnfinishedWork::new(store(), registry)?, &leases);
    workers.start(ThresholdCopies::new(store()), &leases);
    let budget_gauges = BudgetGauges::new(store(), settings.metrics_tenants, registry)?;
    workers.start(budget_gauges, &leases);
    let signing = SignerMetrics::register(registry)?;
    let backlog = BacklogGauge::new(store(), clock.clone(), signing.clone());
    workers.start(backlog, &leases);
    if let Some((SigningConfig { evidence, keys }, issuing)) = settings.evidence {
        let signer = Signer::new(store(), issuing, keys, evidence.retention, signing);
        workers.start(signer, &leases);
    }
    let (source, detected) = (words.runtime_source, DetectorMetrics::register(registry)?);
    let events = DueEvents::new(store(), clock.clone(), source, detected.clone(), registry)?;
    workers.start(events, &leases);
    workers.start(Turns::new(store(), clock.clone(), registry)?, &leases);
    let (source, limit) = (words.dispatcher_source, LatencyLimit::default());
    workers.start(StoreWatch::new(store(), source, limit, detected), &leases);
    let (lanes, signal) = (settings.lane_concurrency, Arc::clone(&queued));
    let fan_out = FanOut::new(store(), outboxes, lanes, signal, registry)?;
    workers.start(fan_out, &leases);
    let signal = Arc::clone(&queued);
    let backfill = Backfill::new(store(), clock.clone(), lanes, signal, registry)?;
    workers.start(backfill, &leases);
    let settings = DeliverySettings {
        name: keeper.name().to_owned(),
        source,
        in_flight: settings.in_flight,
        lane_concurrency: lanes,
        host_rate: settings.host_rate,
    };
    let shutdown = shutdown.clone();
    let deliveries = DeliveryWorker::new(
        webhooks, leases, clock, settings, queued, shutdown, registry,
    )?;
    let alive = Arc::clone(&keeper);
    let deliveries = tokio::spawn(deliveries.run(move || alive.survivors()));
    Ok(Dispatcher {
        workers,
        deliveries,
        keeper,
    })
}

impl Dispatcher {
    /// Waits until the current pass of each worker is over, at most `grace`; then releases the leases.
    pub async fn finished(self, grace: Duration) {
        self.workers.finished(grace).await;
        // It hands back what is in flight.
        let _ = tokio::time::timeout(grace, self.deliveries).await;
        self.keeper.leave().await;
    }
}

fn keeper(store: Store, registry: &Registry) -> prometheus::Result<Arc<LeaseKeeper>> {
    // The host name is for people; the random number makes the name unique.
    let host = std::env::var("HOSTNAME").unwrap_or_default();
    let process = std::process::id();
    // No colon, because claims of deliveries have one behind the name.
    let letters = host.chars().filter(char::is_ascii_graphic).take(64);
    let host = String::from_iter(letters).replace(':', "-");
    let name = format!("{host}-{process}-{:08x}", rand::random::<u32>());
    let metrics = LeaseMetrics::register(registry)?;
    Ok(Arc::new(LeaseKeeper::new(store, name, LEASE, metrics)))
}
