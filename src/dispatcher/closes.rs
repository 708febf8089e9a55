//! Resumes the closes of tenants that their requests left unfinished, because they took too long or their process died.
//!
//! A close is resumed [`crate::admin::tenants::closing::TAKE_OVER`] after its request changed the status, at the latest;
//! at once when the request has handed it over. A close that cannot finish is retried after 30 s, then after twice as long
//! each time, up to half an hour.

use std::time::Duration;

use prometheus::Registry;
use tracing::{error, info};

use super::due::{DueRows, Pass};
use super::workers::lease_worker;
use crate::admin::tenants::closing::{CloseProgress, Closer};
use crate::domain::ids::TenantId;
use crate::metrics::metrics;
use crate::store::{Keys, Lease, Store, StoreError};

/// Tenants examined in each partition in one pass.
const ROWS: usize = 8;

/// The longest time that a pass spends on one tenant.
const TENANT_LIMIT: Duration = Duration::from_secs(2);

metrics! {
    /// Metrics of the closes.
    struct CloseMetrics {
        /// Closes of tenants that this dispatcher finished.
        finished: IntCounter = "budget_tenant_closes_finished_total",
        /// Attempts to finish the close of a tenant that left something open.
        incomplete: IntCounter = "budget_tenant_closes_incomplete_total",
        /// By how much the earliest due close was overdue at the last pass.
        lag_seconds: Gauge = "budget_tenant_close_lag_seconds",
    }
}

/// Resumes closes of tenants.
pub struct Closes {
    store: Store,
    metrics: CloseMetrics,
}

impl Closes {
    /// A worker whose metrics are in `registry`.
    ///
    /// # Errors
    /// When one of their names is taken.
    pub fn new(store: Store, registry: &Registry) -> prometheus::Result<Self> {
        let metrics = CloseMetrics::register(registry)?;
        Ok(Self { store, metrics })
    }

    /// Does one pass over the partitions of `leases` and calls `lost` with each lease that another dispatcher holds by now.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable; a failure of one tenant alone is logged and retried.
    pub async fn run_once(
        &self,
        leases: &[Lease],
        mut lost: impl FnMut(Lease),
    ) -> Result<Pass, StoreError> {
        let mut pass = Pass::default();
        let now_ms = self.store.clock().now_ms();
        let due = DueRows::poll(&self.store, Keys::closings, leases, now_ms, ROWS).await?;
        self.metrics.lag_seconds.set(due.lag_seconds);
        for (lease, members) in due.by_lease {
            for member in members {
                let Some(tenant) = TenantId::parse(&member.member) else {
                    error!(partition = %lease.partition, "the index of closes holds a name that is no tenant id");
                    continue;
                };
                match self.resume(&tenant, lease, &mut pass).await {
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
        Ok(pass)
    }

    /// Resumes one close; false when another dispatcher holds the lease.
    async fn resume(
        &self,
        tenant: &TenantId,
        lease: Lease,
        pass: &mut Pass,
    ) -> Result<bool, StoreError> {
        let mut closer = Closer::new(&self.store, tenant, Some(lease));
        match closer.run(TENANT_LIMIT).await? {
            CloseProgress::Closed => {
                pass.done += 1;
                self.metrics.finished.inc();
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
}

lease_worker!(Closes: "tenant_closes", Duration::from_secs(1));
