//! Resumes bulk actions that their requests left unfinished, because they took too long or their process died.
//!
//! An action is resumed [`LEASE`] after its request last renewed its claim.

use std::time::Duration;

use prometheus::Registry;
use tracing::{error, info};

use super::due::{DueRows, Pass};
use super::workers::{Next, lease_worker};
use crate::admin::bulk_actions::run::{BulkProgress, LEASE, Runner};
use crate::metrics::metrics;
use crate::store::admin::bulk::{BulkMode, BulkPlace, BulkState};
use crate::store::{Keys, Lease, Store, StoreError};

/// Actions examined in each partition in one pass.
const ROWS: usize = 8;

/// The longest time that a pass spends on one action.
const ACTION_LIMIT: Duration = Duration::from_secs(5);

/// After how long an action that failed is retried.
const RETRY_AFTER: Duration = Duration::from_secs(30);

metrics! {
    /// Metrics of the bulk actions.
    struct BulkMetrics {
        /// Unfinished bulk actions that this dispatcher resumed and finished.
        finished: IntCounter = "budget_bulk_actions_resumed_total",
        /// By how much the earliest due bulk action was overdue at the last pass.
        lag_seconds: Gauge = "budget_bulk_action_lag_seconds",
    }
}

/// Resumes bulk actions. Needs no fencing: no row is done twice.
pub struct BulkActions {
    store: Store,
    metrics: BulkMetrics,
}

impl BulkActions {
    /// A worker whose metrics are in `registry`.
    ///
    /// # Errors
    /// When one of their names is taken.
    pub fn new(store: Store, registry: &Registry) -> prometheus::Result<Self> {
        let metrics = BulkMetrics::register(registry)?;
        Ok(Self { store, metrics })
    }

    /// Does one pass over the partitions of `leases`.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable; a failure of one action alone is logged and retried.
    pub async fn run_once(&self, leases: &[Lease]) -> Result<Pass, StoreError> {
        let mut pass = Pass::default();
        let now_ms = self.store.clock().now_ms();
        let longest_ms = RETRY_AFTER.as_millis() as i64;
        let due = DueRows::poll_within(&self.store, Keys::bulks, leases, now_ms, ROWS, longest_ms)
            .await?;
        self.metrics.lag_seconds.set(due.lag_seconds);
        for (Lease { partition, .. }, members) in due.by_lease {
            for member in members {
                let Some(place) = BulkPlace::of_member(partition, &member.member) else {
                    error!(partition = %partition, "the index of bulk actions holds a name that is no bulk action");
                    continue;
                };
                match self.resume(&place).await {
                    Ok(Some(BulkProgress::Finished(_))) => {
                        pass.done += 1;
                        self.metrics.finished.inc();
                        info!("finished a bulk action of `{}`", place.tenant);
                    }
                    Ok(Some(BulkProgress::Paused)) => pass.more = true,
                    Ok(Some(BulkProgress::Forgotten) | None) => {}
                    Err(unavailable @ StoreError::Unavailable(_)) => return Err(unavailable),
                    Err(failure) => {
                        pass.failed += 1;
                        let member = place.member();
                        error!(
                            error = %failure, retry_in_ms = RETRY_AFTER.as_millis() as u64,
                            "cannot resume the bulk action `{member}`; it is retried: {failure}"
                        );
                        self.store
                            .claim_bulk(&place, BulkMode::Renew, RETRY_AFTER)
                            .await?;
                    }
                }
            }
        }
        Ok(pass)
    }

    async fn resume(&self, place: &BulkPlace) -> Result<Option<BulkProgress>, StoreError> {
        match self
            .store
            .claim_bulk(place, BulkMode::Resume, LEASE)
            .await?
        {
            BulkState::Mine(claim) => {
                let mut runner = Runner::new(self.store.clone(), *claim);
                runner.run(ACTION_LIMIT).await.map(Some)
            }
            BulkState::Unreadable(damage) => {
                let member = place.member();
                error!(error = %damage, "the bulk action `{member}` cannot be read: {damage}");
                self.store
                    .claim_bulk(place, BulkMode::Renew, RETRY_AFTER)
                    .await?;
                Ok(None)
            }
            _ => Ok(None),
        }
    }
}

lease_worker!(
    BulkActions: "bulk_actions", Duration::from_secs(1),
    |worker, leases, _| Next::more(worker.run_once(leases).await?.more)
);
