//! The sweeper: expires reservations whose grace period is over, so that their holds return to the budgets.
//!
//! In each leased partition it finds the tenants with the earliest due reservation and calls `expire.lua` page by page. The
//! script is idempotent; commit, release and extend check the deadline themselves, so a late sweep never gives a wrong
//! response.

mod clock;

use std::collections::HashMap;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::{error, warn};

pub use clock::{ClockMetrics, ClockWatch};

use super::due::partitions;
use super::workers::{Next, lease_worker};
use crate::domain::cause::Cause;
use crate::domain::ids::TenantId;
use crate::metrics::metrics;
use crate::store::runtime::expire::ExpireReply;
use crate::store::{Keys, Lane, Lease, Store, StoreError};

/// The longest pause between two passes; with jitter, an expiry is emitted within a second.
pub const IDLE_MAX: Duration = Duration::from_millis(750);

/// The shortest pause after a pass that left nothing due.
const IDLE_MIN: Duration = Duration::from_millis(20);

/// Tenants examined in each partition: few while nothing is due, many when something is.
const ROWS_IDLE: usize = 4;
const ROWS_BUSY: usize = 64;

/// Pages of one tenant in one pass, so that a tenant with many expiries does not delay the others.
const PAGES_PER_TENANT: usize = 20;

/// Tenants swept at the same time: enough to keep Redis busy, few enough to leave it time for requests.
const CONCURRENCY: usize = 3;

/// How long a tenant is skipped after its sweep failed.
const PENALTY: Duration = Duration::from_secs(30);

metrics! {
    /// Metrics of the sweeper.
    pub struct SweepMetrics {
        /// Reservations that the sweeper expired.
        expired: IntCounter = "budget_sweep_expired_total",
        /// Corrupt records that the sweeper put into quarantine.
        quarantined: IntCounter = "budget_sweep_quarantined_total",
        /// Sweeps of one tenant that failed.
        failures: IntCounter = "budget_sweep_failures_total",
        /// By how much the earliest due reservation was overdue at the last pass.
        lag_seconds: Gauge = "budget_sweep_lag_seconds",
    }
}

/// Result of one pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sweep {
    /// Tenants swept.
    pub tenants: usize,
    /// Reservations expired.
    pub expired: i64,
    /// Corrupt records put into quarantine.
    pub quarantined: usize,
    /// Tenants whose sweep failed; later passes skip them for a while.
    pub failed: usize,
    /// Whether something due is left.
    pub more: bool,
    /// How long until the next reservation is due, as far as known.
    pub next_in: Option<Duration>,
    /// Whether the pass did nothing because Redis's clock is in doubt.
    pub halted: bool,
    /// Partitions whose node is out of reach.
    pub unreachable: usize,
}

impl Sweep {
    /// When to start the next pass.
    pub fn next(&self) -> Next {
        match self.next_in {
            _ if self.more => Next::Now,
            Some(next_in) => Next::After(next_in.clamp(IDLE_MIN, IDLE_MAX)),
            None => Next::After(IDLE_MAX),
        }
    }
}

/// Expires due reservations.
pub struct Sweeper {
    store: Store,
    clock: ClockWatch,
    metrics: SweepMetrics,
    busy: bool,
    /// Partitions whose node was out of reach in the last pass.
    unreachable: usize,
    /// Tenants to skip, and until when.
    penalties: HashMap<String, Instant>,
}

/// The outcome of a task.
struct TenantOutcome {
    lease: Lease,
    tenant: TenantId,
    expired: i64,
    quarantined: Vec<String>,
    end: Result<SweepEnd, StoreError>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SweepEnd {
    /// Nothing due is left.
    Clean,
    /// The next pass sweeps the rest.
    More,
    /// Another dispatcher holds the lease.
    Fenced,
}

impl Sweeper {
    /// A sweeper that halts while `clock` is in doubt.
    pub fn new(store: Store, clock: ClockWatch, metrics: SweepMetrics) -> Self {
        Self {
            store,
            clock,
            metrics,
            busy: false,
            unreachable: 0,
            penalties: HashMap::new(),
        }
    }

    /// Does one pass over the partitions of `leases` and calls `lost` with each lease that another dispatcher holds by now.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable; a failure of one tenant alone is counted and logged. When one node of
    /// several is out of reach, the partitions of the others are swept.
    pub async fn run_once(
        &mut self,
        leases: &[Lease],
        mut lost: impl FnMut(Lease),
    ) -> Result<Sweep, StoreError> {
        let Some(now_ms) = self.clock.now_ms(&self.store).await? else {
            return Ok(Sweep {
                halted: true,
                ..Sweep::default()
            });
        };
        let (tasks, mut sweep) = self.plan(leases, now_ms).await?;
        sweep.tenants = tasks.len();
        let mut tasks = tasks.into_iter();
        let mut running = JoinSet::new();
        let mut unavailable = None;
        loop {
            while running.len() < CONCURRENCY
                && let Some(task) = tasks.next()
            {
                running.spawn(drain(self.store.clone(), task, now_ms));
            }
            let Some(joined) = running.join_next().await else {
                break;
            };
            let mut outcome = joined.expect("a sweep does not panic and is not aborted");
            if let Err(StoreError::Unavailable(error)) = outcome.end {
                outcome.end = Ok(SweepEnd::More);
                unavailable.get_or_insert(error);
            }
            self.finish(outcome, &mut sweep, &mut lost);
        }
        self.busy = sweep.more;
        match unavailable {
            Some(error) => Err(error.into()),
            None => Ok(sweep),
        }
    }

    /// Finds the tenants with due reservations, and the lease that each is under.
    async fn plan(
        &mut self,
        leases: &[Lease],
        now_ms: i64,
    ) -> Result<(Vec<(Lease, TenantId)>, Sweep), StoreError> {
        self.penalties.retain(|_, until| *until > Instant::now());
        // Skipped tenants must not hide those behind them.
        let rows = if self.busy { ROWS_BUSY } else { ROWS_IDLE } + self.penalties.len();
        let partitions = partitions(leases);
        let polled = self.store.poll(Keys::due_tenants, &partitions, rows);
        let (mut tasks, mut sweep, mut earliest_ms) = (Vec::new(), Sweep::default(), None::<i64>);
        for (lease, found) in leases.iter().zip(polled.await?) {
            let Some(found) = found else {
                sweep.unreachable += 1;
                continue;
            };
            let full = found.len() == rows;
            let due = found.iter().filter(|due| due.at_ms < now_ms).count();
            sweep.more |= full && due == rows;
            for due in found {
                if self.penalties.contains_key(&due.member) {
                    continue;
                }
                earliest_ms = Some(earliest_ms.map_or(due.at_ms, |ms| ms.min(due.at_ms)));
                if due.at_ms >= now_ms {
                    continue;
                }
                match TenantId::parse(&due.member) {
                    Some(tenant) => tasks.push((*lease, tenant)),
                    None => {
                        error!(partition = %lease.partition, "the due index of partition {} has an entry that is not a tenant id", lease.partition);
                        self.penalties.insert(due.member, Instant::now() + PENALTY);
                        sweep.failed += 1;
                    }
                }
            }
        }
        self.log_unreachable(sweep.unreachable);
        let until_ms = earliest_ms.map(|ms| ms - now_ms);
        let lag_ms = until_ms.map_or(0, |ms| (-ms).max(0));
        self.metrics.lag_seconds.set(lag_ms as f64 / 1_000.0);
        sweep.next_in = until_ms
            .filter(|ms| *ms >= 0)
            .map(|ms| Duration::from_millis(ms.unsigned_abs() + 1));
        Ok((tasks, sweep))
    }

    /// Logs once when partitions go out of reach, and once when they are back.
    fn log_unreachable(&mut self, unreachable: usize) {
        match (self.unreachable, unreachable) {
            (0, 1..) => warn!(
                partitions = unreachable,
                "the nodes of {unreachable} partitions are out of reach; only the others are swept"
            ),
            (1.., 0) => warn!("all partitions are within reach again"),
            _ => {}
        }
        self.unreachable = unreachable;
    }

    fn finish(&mut self, outcome: TenantOutcome, sweep: &mut Sweep, lost: &mut impl FnMut(Lease)) {
        let (tenant, expired, quarantined) = (outcome.tenant, outcome.expired, outcome.quarantined);
        sweep.expired += expired;
        sweep.quarantined += quarantined.len();
        self.metrics.expired.inc_by(expired.unsigned_abs());
        self.metrics.quarantined.inc_by(quarantined.len() as u64);
        for id in quarantined {
            error!(
                tenant.id = %tenant, reservation.id = %id,
                "the record of reservation `{id}` of tenant `{tenant}` is corrupt; it is in quarantine, and its hold, if \
                 any, stays until an operator repairs it"
            );
        }
        match outcome.end {
            Ok(SweepEnd::Clean) => {}
            Ok(SweepEnd::More) => sweep.more = true,
            Ok(SweepEnd::Fenced) => lost(outcome.lease),
            Err(failure) => {
                let retry_in_ms = PENALTY.as_millis() as u64;
                sweep.failed += 1;
                self.metrics.failures.inc();
                error!(
                    tenant.id = %tenant, error = %failure, retry_in_ms,
                    "the reservations of tenant `{tenant}` could not be expired: {failure}"
                );
                let until = Instant::now() + PENALTY;
                self.penalties.insert(tenant.as_str().to_owned(), until);
            }
        }
    }
}

lease_worker!(
    Sweeper: "sweep", Duration::from_millis(200),
    |worker, leases, lost| worker.run_once(leases, lost).await?.next()
);

/// Expires a tenant's reservations that were due before `before_ms`, page by page. Each page is a batch with a trace id of its own.
async fn drain(store: Store, (lease, tenant): (Lease, TenantId), before_ms: i64) -> TenantOutcome {
    let mut outcome = TenantOutcome {
        lease,
        tenant,
        expired: 0,
        quarantined: Vec::new(),
        end: Ok(SweepEnd::More),
    };
    for _ in 0..PAGES_PER_TENANT {
        let cause = Cause::sweep().lines();
        let page = store.expire(
            Lane::Background,
            &outcome.tenant,
            &cause,
            Some(before_ms),
            Some(lease),
        );
        let end = match page.await {
            Ok(Some(ExpireReply::Expired {
                count,
                more,
                quarantined,
                ..
            })) => {
                outcome.expired += count;
                outcome.quarantined.extend(quarantined);
                if more { continue } else { Ok(SweepEnd::Clean) }
            }
            Ok(None) => Ok(SweepEnd::Fenced),
            Err(error) => Err(error),
        };
        outcome.end = end;
        break;
    }
    outcome
}
