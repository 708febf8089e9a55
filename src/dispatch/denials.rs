//! Sums up denials: above a rate they are only counted, and told in one event when their minute is over. The next denial of
//! the tenant does that as well; this worker is for tenants that stop being denied.

use std::time::Duration;

use prometheus::{IntCounter, Registry};
use tracing::error;

use crate::domain::cause::{Actor, Cause};
use crate::domain::ids::{TenantId, TraceId};
use crate::store::denials::Flushed;
use crate::store::{Lease, Store, StoreError};

/// How often to look: a sum is told so long after the end of its minute, at most.
pub const PERIOD: Duration = Duration::from_secs(5);

/// Tenants looked at in each partition in one pass.
const ROWS: usize = 32;

/// What one pass came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flush {
    /// Sums told.
    pub events: i64,
    /// Tenants whose sum could not be told.
    pub failed: usize,
    /// Whether more is due: go on at once.
    pub more: bool,
}

/// Tells the sums of past minutes, under the leases that it is given.
pub struct DenialSums {
    store: Store,
    source: &'static str,
    told: IntCounter,
}

impl DenialSums {
    /// A worker whose events name `source`, the part of the service that refused. Its counter is
    /// `budget_denial_sums_total`.
    ///
    /// # Errors
    /// When the name is taken in `registry`.
    pub fn new(
        store: Store,
        source: &'static str,
        registry: &Registry,
    ) -> prometheus::Result<Self> {
        let told = IntCounter::new(
            "budget_denial_sums_total",
            "Events that sum up denials which were only counted.",
        )?;
        registry.register(Box::new(told.clone()))?;
        Ok(Self {
            store,
            source,
            told,
        })
    }

    /// One pass over the partitions of `leases`. Those that turn out to be another dispatcher's are told to `lost`.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable; what fails for one tenant alone is logged instead.
    pub async fn run_once(
        &self,
        leases: &[Lease],
        mut lost: impl FnMut(Lease),
    ) -> Result<Flush, StoreError> {
        let mut flush = Flush::default();
        let partitions: Vec<_> = leases.iter().map(|lease| lease.partition).collect();
        let polled = self.store.poll_denials(&partitions, ROWS).await?;
        let now_ms = self.store.clock().now_ms();
        for (lease, found) in leases.iter().zip(polled) {
            // Its node is out of reach; the others need not wait.
            let Some(found) = found else { continue };
            let (rows, mut events) = (found.len(), 0);
            for due in found.into_iter().filter(|due| due.at_ms <= now_ms) {
                let Some(tenant) = TenantId::parse(&due.member) else {
                    flush.failed += 1;
                    continue;
                };
                match self
                    .store
                    .flush_denials(&tenant, *lease, &self.cause())
                    .await
                {
                    Ok(Flushed::Events(count)) => events += count,
                    Ok(Flushed::Early | Flushed::WrongDay) => {}
                    Ok(Flushed::Fenced) => {
                        lost(*lease);
                        break;
                    }
                    Err(StoreError::Unavailable(error)) => return Err(error.into()),
                    Err(failure) => {
                        flush.failed += 1;
                        error!(
                            tenant.id = %tenant, error = %failure,
                            "the denials of tenant `{tenant}` could not be summed up: {failure}"
                        );
                    }
                }
            }
            flush.events += events;
            flush.more |= rows == ROWS && events > 0;
        }
        self.told.inc_by(flush.events.unsigned_abs());
        Ok(flush)
    }

    fn cause(&self) -> String {
        let cause = Cause {
            source: self.source,
            actor: Actor::System,
            source_ip: None,
            request_id: None,
            trace_id: TraceId::mint(),
            trace_flags: None,
        };
        cause.lines()
    }
}
