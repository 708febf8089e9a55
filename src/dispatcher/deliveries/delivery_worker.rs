//! Makes the deliveries of the leased partitions: claims those that are due, attempts them, and records the outcomes.
//!
//! One task claims. Each delivery in flight has a task of its own, which then takes the next one of its lane. Claims last
//! longer than attempts, so only the claims of a dead dispatcher lapse.

use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;
use quick_cache::sync::Cache;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use super::attempt::PolicyReader;
use super::deliver::deliver;
use super::end_queue::EndQueues;
use super::host_rates::HostRates;
use super::partition_failures::PartitionFailures;
use super::permits::Permits;
use super::rendered_event::EventCache;
use super::state::{
    CLAIM_MS, DeliveryMetrics, DeliverySettings, DeliverySignal, LAST_WAIT, POLL, WorkerState,
};
use crate::admin::webhooks::Webhooks;
use crate::dispatcher::leases::Leases;
use crate::dispatcher::sweep::ClockWatch;
use crate::domain::ids::Partition;
use crate::driver::reply::Nested;
use crate::egress::POOL_MAX;
use crate::shutdown::Shutdown;
use crate::store::dispatcher::deliveries::{TakeDeliveries, TakeDeliveriesReply};
use crate::store::{Lane, Lease, unless_fenced};

/// Deliveries in flight of one dispatcher.
pub const IN_FLIGHT_MAX: usize = 4_000;

/// Connections that a dispatcher has at most, idle ones included.
pub const CONNECTIONS_MAX: usize = POOL_MAX;
const _: () = assert!(IN_FLIGHT_MAX <= POOL_MAX);

/// Deliveries that one call claims.
const CLAIMS_PER_CALL: usize = 32;

/// How often claims of dead dispatchers are searched for, and postponed lanes that need not wait.
const SEARCH_PERIOD: Duration = Duration::from_secs(2);

/// Cached subscriptions with their secrets.
const RECEIVERS_MAX: usize = 2_000;

/// Makes deliveries. Cheap to clone.
#[derive(Clone)]
pub struct DeliveryWorker(Arc<WorkerState>);

impl DeliveryWorker {
    /// A worker for the partitions of `leases`; `signal` wakes it. Its metrics are in `registry`.
    ///
    /// # Errors
    /// When one of their names is taken.
    pub fn new(
        webhooks: Webhooks,
        leases: Leases,
        clock: ClockWatch,
        settings: DeliverySettings,
        signal: Arc<DeliverySignal>,
        shutdown: Shutdown,
        registry: &Registry,
    ) -> prometheus::Result<Self> {
        Ok(Self(Arc::new(WorkerState {
            lapses: Mutex::new(PartitionFailures::new(
                webhooks.store().clone(),
                "lapsed claims",
            )),
            store: webhooks.store().clone(),
            webhooks,
            leases,
            clock,
            permits: Permits::new(settings.in_flight),
            host_rates: HostRates::new(settings.host_rate),
            settings,
            start_order: Arc::default(),
            ends: EndQueues::default(),
            receivers: Cache::new(RECEIVERS_MAX),
            events: EventCache::default(),
            policies: PolicyReader::default(),
            signal,
            shutdown,
            metrics: DeliveryMetrics::register(registry)?,
        })))
    }

    /// Makes deliveries until the shutdown; then hands back what is still in flight. `dispatchers`: the living ones, if known.
    pub async fn run(self, dispatchers: impl Fn() -> Option<Vec<String>>) {
        let (mut flying, mut polls) = (JoinSet::new(), JoinSet::new());
        let (mut polled, mut seen, mut last) = (None, None, None);
        let state = &self.0;
        let mut failures = PartitionFailures::new(state.store.clone(), "deliveries");
        while !state.shutdown.has_begun() {
            let is_due =
                |last: Option<Instant>, period| last.is_none_or(|at| at.elapsed() >= period);
            // Claims do not wait for a poll that waits for a node.
            let was_requested = polls.is_empty() && state.signal.take_full_poll();
            if polls.is_empty() && (was_requested || is_due(polled, POLL)) {
                polled = Some(Instant::now());
                failures.begin();
                // The former owner of a gained partition may be dead, with claims.
                let alive = (was_requested || is_due(seen, SEARCH_PERIOD)).then(|| {
                    seen = polled;
                    dispatchers().unwrap_or_default().join(" ")
                });
                let state = Arc::clone(state);
                polls.spawn(async move {
                    if let Err(failure) = state.poll(alive.as_deref()).await {
                        warn!(error = %failure, "deliveries wait, because Redis does not respond: {failure}");
                    }
                });
            }
            for lease in state.due_now(last) {
                self.take(lease, &mut flying, &mut failures, &mut last)
                    .await;
            }
            while flying.try_join_next().is_some() {}
            let pause = state.signal.next().min(POLL);
            tokio::select! {
                () = sleep(pause) => {}
                () = state.signal.signalled() => {}
                Some(_) = polls.join_next() => {}
                () = state.shutdown.begun() => {}
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
        failures: &mut PartitionFailures,
        last: &mut Option<Partition>,
    ) {
        let state = &self.0;
        // No partition takes all that is free.
        let room = state.permits.free().div_ceil(4).min(CLAIMS_PER_CALL);
        if room == 0 {
            state
                .signal
                .after(lease.partition, Duration::from_millis(20));
            return;
        }
        if failures.leave_out(lease.partition).await {
            return;
        }
        *last = Some(lease.partition);
        let call = TakeDeliveries {
            fencing_token: lease,
            dispatcher: &state.settings.name,
            claim_ms: CLAIM_MS,
            most: room,
            lane_concurrency: state.settings.lane_concurrency,
            busy_owners: &state.permits.busy_owners(lease.partition),
            stale_before_ms: state.stale_before_ms(),
        };
        let in_order = state.claiming(lease.partition).await;
        let taken = match unless_fenced(state.store.run(Lane::Background, &call).await) {
            Ok(Some(taken)) => taken,
            Ok(None) => return state.leases.lost(lease),
            // The next poll of the partition makes it due again.
            Err(failure) => return failures.note(lease.partition, failure),
        };
        let TakeDeliveriesReply::Taken {
            more,
            ended: Nested(ended),
            damaged,
            claims,
        } = taken;
        state.count_ended(&ended);
        state.note_damage(lease.partition, &damaged);
        if more || claims.len() == room {
            state.signal.after(lease.partition, Duration::ZERO);
        }
        for Nested(claim) in claims {
            let permit = state.permits.take(&claim.owner);
            let ticket = state.ticket_of(&claim);
            flying.spawn(deliver(Arc::clone(state), claim, ticket, permit));
        }
        drop(in_order);
    }
}
