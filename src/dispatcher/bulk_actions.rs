//! Goes on with bulk actions that their requests left: because they took too long, or because whoever answered them died.
//!
//! An action is taken up [`LEASE`] after the last sign of life of its request. One whose end cannot be written is tried again
//! after [`AGAIN`].

use std::time::Duration;

use prometheus::{Gauge, IntCounter, Registry};
use tracing::{error, info};

use crate::admin::bulk_actions::run::{LEASE, Runner, Turn};
use crate::store::admin::bulk::{BulkPlace, BulkState};
use crate::store::{Lease, Store, StoreError};

/// How often to look.
pub const PERIOD: Duration = Duration::from_secs(1);

/// Actions looked at in each partition in one pass.
const ROWS: usize = 8;

/// For how long a pass goes on with one action, so that the others need not wait.
const TURN: Duration = Duration::from_secs(5);

/// How soon what failed is tried again.
const AGAIN: Duration = Duration::from_secs(30);

/// What one pass came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resumed {
    /// Actions that came to their end.
    pub finished: usize,
    /// Actions that could not go on.
    pub failed: usize,
    /// Whether more is due: go on at once.
    pub more: bool,
}

/// Goes on with bulk actions in the partitions that it is given. Needs no fence: nobody does a row twice.
pub struct Bulks {
    store: Store,
    finished: IntCounter,
    lag_seconds: Gauge,
}

impl Bulks {
    /// A worker with the metrics `budget_bulk_actions_resumed_total` and `budget_bulk_actions_lag_seconds`.
    ///
    /// # Errors
    /// When one of the names is taken in `registry`.
    pub fn new(store: Store, registry: &Registry) -> prometheus::Result<Self> {
        let bulks = Self {
            store,
            finished: IntCounter::new(
                "budget_bulk_actions_resumed_total",
                "Bulk actions left by their requests that were brought to their end here.",
            )?,
            lag_seconds: Gauge::new(
                "budget_bulk_actions_lag_seconds",
                "How overdue the earliest bulk action was at the last pass.",
            )?,
        };
        registry.register(Box::new(bulks.finished.clone()))?;
        registry.register(Box::new(bulks.lag_seconds.clone()))?;
        Ok(bulks)
    }

    /// One pass over the partitions of `leases`.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable; what fails for one action alone is logged, and put off, instead.
    pub async fn run_once(&self, leases: &[Lease]) -> Result<Resumed, StoreError> {
        let mut pass = Resumed::default();
        let partitions: Vec<_> = leases.iter().map(|lease| lease.partition).collect();
        let polled = self.store.poll_bulks(&partitions, ROWS).await?;
        let now_ms = self.store.clock().now_ms();
        let mut lag_ms = 0;
        for (partition, found) in partitions.into_iter().zip(polled) {
            // Its node is out of reach; the others need not wait.
            let Some(found) = found else { continue };
            for due in found.into_iter().filter(|due| due.at_ms <= now_ms) {
                lag_ms = lag_ms.max(now_ms - due.at_ms);
                let Some(place) = BulkPlace::of_member(partition, &due.member) else {
                    error!(partition = %partition, "the index of bulk actions holds what is none");
                    continue;
                };
                match self.go_on(&place).await {
                    Ok(Some(Turn::Finished(_))) => {
                        pass.finished += 1;
                        self.finished.inc();
                        info!("a bulk action of `{}` came to its end", place.tenant);
                    }
                    Ok(Some(Turn::Paused)) => pass.more = true,
                    Ok(Some(Turn::Forgotten) | None) => {}
                    Err(unavailable @ StoreError::Unavailable(_)) => return Err(unavailable),
                    Err(failure) => {
                        pass.failed += 1;
                        let member = place.member();
                        error!(
                            error = %failure, retry_in_ms = AGAIN.as_millis() as u64,
                            "the bulk action `{member}` cannot go on, and is tried again: {failure}"
                        );
                        self.store.renew_bulk(&place, AGAIN).await?;
                    }
                }
            }
        }
        self.lag_seconds.set(lag_ms as f64 / 1_000.0);
        Ok(pass)
    }

    async fn go_on(&self, place: &BulkPlace) -> Result<Option<Turn>, StoreError> {
        match self.store.resume_bulk(place, LEASE).await? {
            BulkState::Mine(claim) => {
                let mut runner = Runner::new(self.store.clone(), *claim);
                runner.run(TURN).await.map(Some)
            }
            BulkState::Unreadable(damage) => {
                let member = place.member();
                error!(error = %damage, "the bulk action `{member}` cannot be read: {damage}");
                self.store.renew_bulk(place, AGAIN).await?;
                Ok(None)
            }
            _ => Ok(None),
        }
    }
}
