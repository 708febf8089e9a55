//! Resumes closes of tenants and bulk actions that their requests left unfinished, because they took too long or their process died.
//!
//! A close is resumed [`crate::admin::tenants::closing::TAKE_OVER`] after its request changed the status, at the latest;
//! at once when the request has handed it over. A close that cannot finish is retried after 30 s, then after twice as long
//! each time, up to half an hour. A bulk action is resumed [`LEASE`] after its request last renewed its claim.

use std::time::Duration;

use prometheus::Registry;
use tracing::{error, info};

use super::due::{DueRows, Pass, UNBOUNDED_MS, partitions};
use super::workers::{Next, lease_worker};
use crate::admin::bulk_actions::run::{BulkProgress, LEASE, Runner};
use crate::admin::tenants::closing::{CloseProgress, Closer};
use crate::domain::ids::TenantId;
use crate::metrics::metrics;
use crate::store::admin::bulk::{BulkMode, BulkPlace, BulkState};
use crate::store::{Keys, Lease, Store, StoreError};

/// Closes, and bulk actions, examined in each partition in one pass.
const ROWS: usize = 8;

/// The longest time that a pass spends on one tenant, and on one bulk action.
const TENANT_LIMIT: Duration = Duration::from_secs(2);
const ACTION_LIMIT: Duration = Duration::from_secs(5);

/// After how long a bulk action that failed is retried.
const RETRY_AFTER: Duration = Duration::from_secs(30);

metrics! {
    /// Metrics of resumed work.
    struct ResumeMetrics {
        /// Closes of tenants that this dispatcher finished.
        closed: IntCounter = "budget_tenant_closes_finished_total",
        /// Attempts to finish the close of a tenant that left something open.
        incomplete: IntCounter = "budget_tenant_closes_incomplete_total",
        /// By how much the earliest due close was overdue at the last pass.
        close_lag_seconds: Gauge = "budget_tenant_close_lag_seconds",
        /// Unfinished bulk actions that this dispatcher resumed and finished.
        finished: IntCounter = "budget_bulk_actions_resumed_total",
        /// By how much the earliest due bulk action was overdue at the last pass.
        bulk_lag_seconds: Gauge = "budget_bulk_action_lag_seconds",
    }
}

/// Resumes closes and bulk actions.
pub struct UnfinishedWork {
    store: Store,
    metrics: ResumeMetrics,
}

impl UnfinishedWork {
    /// A worker whose metrics are in `registry`.
    ///
    /// # Errors
    /// When one of their names is taken.
    pub fn new(store: Store, registry: &Registry) -> prometheus::Result<Self> {
        let metrics = ResumeMetrics::register(registry)?;
        Ok(Self { store, metrics })
    }

    /// Does one pass over the partitions of `leases` and calls `lost` with each lease that another dispatcher holds by now.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable; a failure of one tenant or bulk action alone is logged and retried.
    pub async fn run_once(
        &self,
        leases: &[Lease],
        lost: impl FnMut(Lease),
    ) -> Result<Pass, StoreError> {
        let mut pass = Pass::default();
        // A node that refuses the steps of a close must not hold up bulk actions elsewhere.
        let closed = self.resume_closes(leases, lost, &mut pass).await;
        let resumed = self.resume_bulk_actions(leases, &mut pass).await;
        closed.and(resumed).map(|()| pass)
    }

    async fn resume_closes(
        &self,
        leases: &[Lease],
        mut lost: impl FnMut(Lease),
        pass: &mut Pass,
    ) -> Result<(), StoreError> {
        let now_ms = self.store.clock().now_ms();
        let (store, index) = (&self.store, Keys::closings);
        let due = DueRows::poll(store, index, leases, now_ms, ROWS, UNBOUNDED_MS).await?;
        self.metrics.close_lag_seconds.set(due.lag_seconds);
        for (lease, members) in due.by_lease {
            for member in members {
                let Some(tenant) = TenantId::parse(&member.member) else {
                    error!(partition = %lease.partition, "the index of closes has an entry that is not a tenant id");
                    continue;
                };
                match self.close(&tenant, lease, pass).await {
                    Ok(true) => {}
                    Ok(false) => {
                        lost(lease);
                        break;
                    }
                    Err(unavailable @ StoreError::Unavailable(_)) => return Err(unavailable),
                    Err(failure) => error!(
                        tenant.id = %tenant, error = %failure,
                        "cannot resume the close of tenant `{tenant}`; it is retried: {failure}"
                    ),
                }
            }
        }
        Ok(())
    }

    /// Resumes one close; false when another dispatcher holds the lease.
    async fn close(
        &self,
        tenant: &TenantId,
        lease: Lease,
        pass: &mut Pass,
    ) -> Result<bool, StoreError> {
        let mut closer = Closer::new(&self.store, tenant, Some(lease));
        match closer.run(TENANT_LIMIT).await? {
            CloseProgress::Closed => {
                pass.done += 1;
                self.metrics.closed.inc();
                info!(tenant.id = %tenant, "everything that the closed tenant `{tenant}` owned has ended");
            }
            CloseProgress::Paused => pass.more = true,
            CloseProgress::Incomplete {
                again_in_ms,
                failed,
            } => {
                pass.failed += 1;
                self.metrics.incomplete.inc();
                let (failed, retry_in_ms) = (failed.join(" "), again_in_ms);
                error!(
                    tenant.id = %tenant, retry_in_ms,
                    "tenant `{tenant}` is closed, but these could not be: {failed}"
                );
            }
            CloseProgress::Fenced => return Ok(false),
        }
        Ok(true)
    }

    /// Needs no fencing: no row is done twice.
    async fn resume_bulk_actions(
        &self,
        leases: &[Lease],
        pass: &mut Pass,
    ) -> Result<(), StoreError> {
        let now_ms = self.store.clock().now_ms();
        let longest_ms = RETRY_AFTER.as_millis() as i64;
        let due = DueRows::poll(&self.store, Keys::bulks, leases, now_ms, ROWS, longest_ms).await?;
        self.metrics.bulk_lag_seconds.set(due.lag_seconds);
        for (Lease { partition, .. }, members) in due.by_lease {
            for member in members {
                let Some(place) = BulkPlace::of_member(partition, &member.member) else {
                    error!(partition = %partition, "the index of bulk actions has an entry that is not a bulk action");
                    continue;
                };
                match self.finish(&place).await {
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
                        self.postpone(&place).await?;
                    }
                }
            }
        }
        Ok(())
    }

    async fn finish(&self, place: &BulkPlace) -> Result<Option<BulkProgress>, StoreError> {
        let claimed = self.store.claim_bulk(place, BulkMode::Resume, LEASE);
        match claimed.await? {
            BulkState::Mine(claim) => {
                let mut runner = Runner::new(self.store.clone(), *claim);
                runner.run(ACTION_LIMIT).await.map(Some)
            }
            BulkState::Unreadable(damage) => {
                let member = place.member();
                error!(error = %damage, "the bulk action `{member}` cannot be read: {damage}");
                self.postpone(place).await.map(|_| None)
            }
            _ => Ok(None),
        }
    }

    async fn postpone(&self, place: &BulkPlace) -> Result<BulkState, StoreError> {
        let (mode, until) = (BulkMode::Renew, RETRY_AFTER);
        self.store.claim_bulk(place, mode, until).await
    }
}

lease_worker!(UnfinishedWork: "unfinished_work", Duration::from_secs(1));

/// Copies the thresholds that the operator's webhooks watch to leased partitions that missed a change: the process that makes a change
/// copies it to all partitions before it responds, but may be killed before the last one. Needs no fencing: an older version changes
/// nothing.
pub struct ThresholdCopies {
    store: Store,
}

impl ThresholdCopies {
    /// A worker over `store`.
    pub fn new(store: Store) -> Self {
        Self { store }
    }

    /// Does one pass and returns how many partitions were behind.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable.
    pub async fn run_once(&self, leases: &[Lease]) -> Result<usize, StoreError> {
        let Some(watched) = self.store.watched().await? else {
            return Ok(0);
        };
        let partitions = partitions(leases);
        let behind = self.store.behind(&partitions, watched.version).await?;
        if !behind.is_empty() {
            self.store.copy_thresholds(&behind, &watched).await?;
        }
        Ok(behind.len())
    }
}

lease_worker!(
    ThresholdCopies: "thresholds", Duration::from_secs(5),
    |worker, leases, _| worker.run_once(leases).await.map(|_| Next::Idle)?
);
