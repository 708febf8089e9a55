//! Makes the deliveries of the leased partitions: claims what may be attempted, attempts it, and books what it came to.
//!
//! One task claims. Each delivery in flight has a task of its own, which then takes the next one of its lane. Claims last
//! longer than an attempt can, so only a dispatcher that has died lets one lapse.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use prometheus::Registry;
use quick_cache::sync::Cache;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use super::deliver::deliver;
use super::inner::{CLAIM_MS, DeliveryMetrics, Inner, LAST_WAIT, POLL};
use super::letters::Letters;
use super::wake::Wake;
use crate::admin::webhooks::Webhooks;
use crate::dispatcher::leases::Leases;
use crate::dispatcher::sweep::ClockWatch;
use crate::egress::KEPT_MAX;
use crate::shutdown::Shutdown;
use crate::store::dispatcher::deliveries::{TakeDeliveries, TakenDeliveries};
use crate::store::{Lease, StoreError};

/// Deliveries in flight of one dispatcher.
const FLYING_MAX: usize = 4_000;

/// Connections that a dispatcher has at most: one for each delivery in flight, and unused ones that are kept.
pub const CONNECTIONS_MAX: usize = FLYING_MAX + KEPT_MAX;

/// Deliveries that one call claims.
const TAKEN: usize = 64;

/// How often claims of dead dispatchers are looked for.
const DEAD_CLAIMS: Duration = Duration::from_secs(2);

/// Subscriptions that are remembered with their secrets.
const RECEIVERS_MAX: usize = 2_000;

/// Makes deliveries. Cheap to clone.
#[derive(Clone)]
pub struct Courier(Arc<Inner>);

/// What a courier needs besides.
pub struct CourierSettings {
    /// How its claims name it; a name that no other dispatcher has, without blank and colon.
    pub name: String,
    /// `source` of the events about its deliveries.
    pub source: &'static str,
    /// First attempts of a lane that may be in flight at once.
    pub lane_concurrency: u32,
    /// The delay of a retry may be so many percent longer.
    pub retry_jitter: u32,
}

impl Courier {
    /// A courier for the partitions of `leases`; `queued` wakes it. Its metrics are in `registry`.
    ///
    /// # Errors
    /// When one of their names is taken.
    pub fn new(
        webhooks: Webhooks,
        leases: Leases,
        clock: ClockWatch,
        settings: CourierSettings,
        queued: Arc<Wake>,
        shutdown: Shutdown,
        registry: &Registry,
    ) -> prometheus::Result<Self> {
        Ok(Self(Arc::new(Inner {
            store: webhooks.store().clone(),
            webhooks,
            leases,
            clock,
            name: settings.name,
            source: settings.source,
            lane_concurrency: settings.lane_concurrency,
            retry_jitter: settings.retry_jitter,
            permits: Arc::new(Semaphore::new(FLYING_MAX)),
            receivers: Cache::new(RECEIVERS_MAX),
            letters: Letters::default(),
            due: Mutex::default(),
            changed: queued,
            shutdown,
            metrics: DeliveryMetrics::register(registry)?,
        })))
    }

    /// Makes deliveries until the shutdown; then hands back what is still in flight. `dispatchers`: who is alive.
    pub async fn run(self, dispatchers: impl Fn() -> Option<Vec<String>>) {
        let (mut flying, mut polled, mut seen) = (JoinSet::new(), None, None::<Instant>);
        let inner = &self.0;
        while !inner.shutdown.has_begun() {
            let gained = inner.changed.take_all();
            if gained || polled.is_none_or(|at: Instant| at.elapsed() >= POLL) {
                polled = Some(Instant::now());
                let alive = match seen.is_none_or(|at| at.elapsed() >= DEAD_CLAIMS) {
                    true => {
                        seen = Some(Instant::now());
                        dispatchers()
                    }
                    false => None,
                };
                if let Err(failure) = inner.poll(alive.as_deref()).await {
                    warn!(error = %failure, "deliveries wait, because Redis cannot be asked: {failure}");
                }
            }
            for lease in inner.due_now() {
                if let Err(failure) = self.take(lease, &mut flying).await {
                    warn!(error = %failure, "deliveries of {} wait: {failure}", lease.partition);
                    inner.look_again(lease.partition, POLL);
                }
            }
            while flying.try_join_next().is_some() {}
            let pause = inner.next_due().min(POLL);
            tokio::select! {
                () = sleep(pause) => {}
                () = inner.changed.woken() => {}
                () = inner.shutdown.begun() => {}
            }
        }
        let all = async { while flying.join_next().await.is_some() {} };
        // Each notices the shutdown by itself.
        let _ = timeout(LAST_WAIT * 4, all).await;
    }

    async fn take(&self, lease: Lease, flying: &mut JoinSet<()>) -> Result<(), StoreError> {
        let inner = &self.0;
        loop {
            let room = inner.permits.available_permits().min(TAKEN);
            if room == 0 {
                inner.look_again(lease.partition, Duration::from_millis(20));
                return Ok(());
            }
            let call = TakeDeliveries {
                fencing_token: lease,
                dispatcher: &inner.name,
                claim_ms: CLAIM_MS,
                most: room,
                lane_concurrency: inner.lane_concurrency,
                stale_before_ms: inner.stale_before_ms(),
            };
            let Some(taken) = inner.store.take_deliveries(&call).await? else {
                inner.leases.lost(lease);
                return Ok(());
            };
            inner.count_ended(&taken);
            let TakenDeliveries { more, claims, .. } = taken;
            let count = claims.len();
            for claim in claims {
                let permit = Arc::clone(&inner.permits).try_acquire_owned();
                let permit = permit.expect("only this task takes permits");
                flying.spawn(deliver(Arc::clone(inner), claim, permit));
            }
            if !more && count < room {
                return Ok(());
            }
        }
    }
}
