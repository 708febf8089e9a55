//! Makes the deliveries of the leased partitions: claims what may be attempted, attempts it, and books what it came to.
//!
//! One task claims. Each delivery in flight has a task of its own, which then takes the next one of its lane. Claims last
//! longer than an attempt can, so only a dispatcher that has died lets one lapse.

use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use quick_cache::sync::Cache;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use super::bookings::Bookings;
use super::deliver::deliver;
use super::failures::Failures;
use super::inner::{CLAIM_MS, DeliveryMetrics, Inner, LAST_WAIT, POLL};
use super::letters::Letters;
use super::permits::Permits;
use super::rules::Rules;
use super::wake::Wake;
use crate::admin::webhooks::Webhooks;
use crate::dispatcher::leases::Leases;
use crate::dispatcher::sweep::ClockWatch;
use crate::domain::ids::Partition;
use crate::egress::POOL_MAX;
use crate::shutdown::Shutdown;
use crate::store::Lease;
use crate::store::dispatcher::deliveries::{TakeDeliveries, TakenDeliveries};

/// Deliveries in flight of one dispatcher.
pub const IN_FLIGHT_MAX: usize = 4_000;

/// Connections that a dispatcher has at most: one for each delivery in flight, and idle ones.
pub const CONNECTIONS_MAX: usize = IN_FLIGHT_MAX + POOL_MAX;

/// Deliveries that one call claims.
const TAKEN: usize = 32;

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
    /// Deliveries that may be in flight at once.
    pub in_flight: usize,
    /// First attempts of a lane that may be in flight at once.
    pub lane_concurrency: u32,
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
            lapses: Mutex::new(Failures::new(webhooks.store().clone(), "lapsed claims")),
            store: webhooks.store().clone(),
            webhooks,
            leases,
            clock,
            name: settings.name,
            source: settings.source,
            lane_concurrency: settings.lane_concurrency,
            permits: Permits::new(settings.in_flight),
            starts: Arc::default(),
            bookings: Bookings::default(),
            receivers: Cache::new(RECEIVERS_MAX),
            letters: Letters::default(),
            rules: Rules::default(),
            due: std::sync::Mutex::default(),
            lost_replies: std::sync::Mutex::default(),
            hastened: std::sync::Mutex::default(),
            restore_pauses: std::sync::Mutex::default(),
            changed: queued,
            shutdown,
            metrics: DeliveryMetrics::register(registry)?,
        })))
    }

    /// Makes deliveries until the shutdown; then hands back what is still in flight. `dispatchers`: who is alive, if that is known.
    pub async fn run(self, dispatchers: impl Fn() -> Option<Vec<String>>) {
        let (mut flying, mut polls) = (JoinSet::new(), JoinSet::new());
        let (mut polled, mut seen, mut last) = (None, None::<Instant>, None);
        let inner = &self.0;
        let mut failures = Failures::new(inner.store.clone(), "deliveries");
        while !inner.shutdown.has_begun() {
            let is_time = polled.is_none_or(|at: Instant| at.elapsed() >= POLL);
            // Claims do not wait for a poll that waits for a node.
            if polls.is_empty() && (inner.changed.take_all() || is_time) {
                polled = Some(Instant::now());
                failures.begin();
                let looks = seen.is_none_or(|at| at.elapsed() >= DEAD_CLAIMS);
                let alive = looks.then(|| {
                    seen = Some(Instant::now());
                    dispatchers().unwrap_or_default().join(" ")
                });
                let inner = Arc::clone(inner);
                polls.spawn(async move {
                    if let Err(failure) = inner.poll(alive.as_deref()).await {
                        warn!(error = %failure, "deliveries wait, because Redis cannot be asked: {failure}");
                    }
                });
            }
            for lease in inner.due_now(last) {
                self.take(lease, &mut flying, &mut failures, &mut last)
                    .await;
            }
            while flying.try_join_next().is_some() {}
            let pause = inner.next_due().min(POLL);
            tokio::select! {
                () = sleep(pause) => {}
                () = inner.changed.woken() => {}
                Some(_) = polls.join_next() => {}
                () = inner.shutdown.begun() => {}
            }
        }
        let all = async { while flying.join_next().await.is_some() {} };
        // Each notices the shutdown by itself.
        let _ = timeout(LAST_WAIT * 4, all).await;
    }

    /// Claims some deliveries of a partition. `last`: the one that was served last.
    async fn take(
        &self,
        lease: Lease,
        flying: &mut JoinSet<()>,
        failures: &mut Failures,
        last: &mut Option<Partition>,
    ) {
        let inner = &self.0;
        // One partition does not take all that is free.
        let room = inner.permits.free().div_ceil(4).min(TAKEN);
        if room == 0 {
            inner.look_again(lease.partition, Duration::from_millis(20));
            return;
        }
        if failures.leave_out(lease.partition).await {
            return;
        }
        *last = Some(lease.partition);
        let call = TakeDeliveries {
            fencing_token: lease,
            dispatcher: &inner.name,
            claim_ms: CLAIM_MS,
            most: room,
            lane_concurrency: inner.lane_concurrency,
            busy_owners: &inner.permits.busy_owners(lease.partition),
            stale_before_ms: inner.stale_before_ms(),
        };
        let in_order = inner.claiming(lease.partition).await;
        let taken = match inner.store.take_deliveries(&call).await {
            Ok(Some(taken)) => taken,
            Ok(None) => return inner.leases.lost(lease),
            // The next poll that reaches the partition notes it again.
            Err(failure) => {
                inner.reply_is_lost(lease.partition);
                return failures.note(lease.partition, failure);
            }
        };
        inner.count_ended(&taken.ended);
        inner.note_damage(lease.partition, &taken.damaged);
        let TakenDeliveries {
            more,
            claims,
            uncounted,
            ..
        } = taken;
        if !uncounted.is_empty() {
            flying.spawn(Arc::clone(inner).restore(lease, uncounted));
        }
        if more || claims.len() == room {
            inner.look_again(lease.partition, Duration::ZERO);
        }
        for claim in claims {
            let permit = inner.permits.take(&claim.owner, &claim.id);
            let start = inner.start_of(&claim);
            flying.spawn(deliver(Arc::clone(inner), claim, start, permit));
        }
        drop(in_order);
    }
}
