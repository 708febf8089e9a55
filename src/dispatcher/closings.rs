//! Goes on with the closes of tenants that their requests left: because they took too long, or because whoever answered them died.
//!
//! A tenant is taken up [`crate::admin::tenants::closing::TAKE_OVER`] after the flip at the latest, or at once where its request said that
//! its part is over. One that cannot be closed in full is tried again after 30 s, then twice as long each time, at most
//! half an hour.

use std::time::Duration;

use prometheus::{Gauge, IntCounter, Registry};
use tracing::{error, info};

use crate::admin::tenants::closing::{Closer, Turn};
use crate::domain::ids::TenantId;
use crate::store::{Lease, Store, StoreError};

/// How often to look.
pub const PERIOD: Duration = Duration::from_secs(1);

/// Tenants looked at in each partition in one pass.
const ROWS: usize = 8;

/// For how long a pass goes on with one tenant, so that the others need not wait.
const TURN: Duration = Duration::from_secs(2);

/// What one pass came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Closes that came to their end.
    pub closed: usize,
    /// Closes of which something failed.
    pub incomplete: usize,
    /// Whether more is due: go on at once.
    pub more: bool,
}

/// Goes on with closes, under the leases that it is given.
pub struct Closings {
    store: Store,
    closed: IntCounter,
    incomplete: IntCounter,
    lag_seconds: Gauge,
}

impl Closings {
    /// A worker with the metrics `budget_closings_total`, `budget_closings_incomplete_total` and
    /// `budget_closings_lag_seconds`.
    ///
    /// # Errors
    /// When one of the names is taken in `registry`.
    pub fn new(store: Store, registry: &Registry) -> prometheus::Result<Self> {
        let closings = Self {
            store,
            closed: IntCounter::new(
                "budget_closings_total",
                "Closes of tenants that were brought to their end here.",
            )?,
            incomplete: IntCounter::new(
                "budget_closings_incomplete_total",
                "Turns at the close of a tenant of which something could not be closed.",
            )?,
            lag_seconds: Gauge::new(
                "budget_closings_lag_seconds",
                "How overdue the earliest close was at the last pass.",
            )?,
        };
        registry.register(Box::new(closings.closed.clone()))?;
        registry.register(Box::new(closings.incomplete.clone()))?;
        registry.register(Box::new(closings.lag_seconds.clone()))?;
        Ok(closings)
    }

    /// One pass over the partitions of `leases`. Those that turn out to be another dispatcher's are told to `lost`.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable; what fails for one tenant alone is logged, and put off, instead.
    pub async fn run_once(
        &self,
        leases: &[Lease],
        mut lost: impl FnMut(Lease),
    ) -> Result<Reconciled, StoreError> {
        let mut pass = Reconciled::default();
        let partitions: Vec<_> = leases.iter().map(|lease| lease.partition).collect();
        let polled = self.store.poll_closings(&partitions, ROWS).await?;
        let now_ms = self.store.clock().now_ms();
        let mut lag_ms = 0;
        for (lease, found) in leases.iter().zip(polled) {
            // Its node is out of reach; the others need not wait.
            let Some(found) = found else { continue };
            for due in found.into_iter().filter(|due| due.at_ms <= now_ms) {
                lag_ms = lag_ms.max(now_ms - due.at_ms);
                let Some(tenant) = TenantId::parse(&due.member) else {
                    error!(partition = %lease.partition, "the index of closes holds what is no tenant");
                    continue;
                };
                let mut closer = Closer::new(&self.store, &tenant, Some(*lease));
                let turn = match closer.run(TURN).await {
                    Ok(turn) => turn,
                    Err(unavailable @ StoreError::Unavailable(_)) => return Err(unavailable),
                    Err(failure) => {
                        error!(
                            tenant.id = %tenant, error = %failure,
                            "the close of the tenant `{tenant}` cannot go on, and is tried again: {failure}"
                        );
                        continue;
                    }
                };
                match turn {
                    Turn::Closed => {
                        pass.closed += 1;
                        self.closed.inc();
                        info!(tenant.id = %tenant, "all that the closed tenant `{tenant}` owned has ended");
                    }
                    Turn::Paused => pass.more = true,
                    Turn::Incomplete {
                        again_in_ms,
                        failed,
                    } => {
                        pass.incomplete += 1;
                        self.incomplete.inc();
                        let (failed, retry_in_ms) = (failed.join(" "), again_in_ms);
                        error!(
                            tenant.id = %tenant, retry_in_ms,
                            "the tenant `{tenant}` is closed, but not: {failed}"
                        );
                    }
                    Turn::Fenced => {
                        lost(*lease);
                        break;
                    }
                }
            }
        }
        self.lag_seconds.set(lag_ms as f64 / 1_000.0);
        Ok(pass)
    }
}
