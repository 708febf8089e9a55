//! Resumes bulk actions that their requests left unfinished, because they took too long or their process died.
//!
//! An action is resumed [`LEASE`] after its request last renewed its claim.

use std::time::Duration;

use prometheus::{
    Gauge, IntCounter, Registry, register_gauge_with_registry, register_int_counter_with_registry,
};
use tracing::{error, info};

use super::due::DueRows;
use super::workers::{LeaseWorker, Next};
use crate::admin::bulk_actions::run::{BulkProgress, LEASE, Runner};
use crate::store::admin::bulk::{BulkMode, BulkPlace, BulkState};
use crate::store::{Keys, Lease, Store, StoreError};

/// Actions examined in each partition in one pass.
const ROWS: usize = 8;

/// The longest time that a pass spends on one action.
const ACTION_LIMIT: Duration = Duration::from_secs(5);

/// After how long an action that failed is retried.
const RETRY_AFTER: Duration = Duration::from_secs(30);

/// What one pass did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BulkPass {
    /// Actions that finished.
    pub finished: usize,
    /// Actions that could not be resumed.
    pub failed: usize,
    /// Whether more is due.
    pub more: bool,
}

/// Resumes bulk actions. Needs no fencing: no row is done twice.
pub struct BulkActions {
    store: Store,
    finished: IntCounter,
    lag_seconds: Gauge,
}

impl BulkActions {
    /// A worker with the metrics `budget_bulk_actions_resumed_total` and `budget_bulk_action_lag_seconds`.
    ///
    /// # Errors
    /// When one of the names is taken in `registry`.
    pub fn new(store: Store, registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            store,
            finished: register_int_counter_with_registry!(
                "budget_bulk_actions_resumed_total",
                "Unfinished bulk actions that this dispatcher resumed and finished.",
                registry
            )?,
            lag_seconds: register_gauge_with_registry!(
                "budget_bulk_action_lag_seconds",
                "By how much the earliest due bulk action was overdue at the last pass.",
                registry
            )?,
        })
    }

    /// Does one pass over the partitions of `leases`.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable; a failure of one action alone is logged and retried.
    pub async fn run_once(&self, leases: &[Lease]) -> Result<BulkPass, StoreError> {
        let mut pass = BulkPass::default();
        let now_ms = self.store.clock().now_ms();
        let due = DueRows::poll(&self.store, Keys::bulks, leases, now_ms, ROWS).await?;
        self.lag_seconds.set(due.lag_seconds);
        for (Lease { partition, .. }, members) in due.by_lease {
            for member in members {
                let Some(place) = BulkPlace::of_member(partition, &member.member) else {
                    error!(partition = %partition, "the index of bulk actions holds a name that is no bulk action");
                    continue;
                };
                match self.resume(&place).await {
                    Ok(Some(BulkProgress::Finished(_))) => {
                        pass.finished += 1;
                        self.finished.inc();
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

impl LeaseWorker for BulkActions {
    const NAME: &'static str = "bulk_actions";
    const PERIOD: Duration = Duration::from_secs(1);

    async fn pass(
        &mut self,
        leases: &[Lease],
        _: impl FnMut(Lease) + Send,
    ) -> Result<Next, StoreError> {
        Ok(Next::more(self.run_once(leases).await?.more))
    }
}
