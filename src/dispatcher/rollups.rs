//! Tells sums: above a rate, refusals are only counted, and told in one fact when their minute is over. The next refusal of
//! the kind does that as well; this worker is for those after which none comes.

use std::time::Duration;

use prometheus::{IntCounterVec, Opts, Registry};
use tracing::error;

use crate::domain::cause::{Actor, Cause};
use crate::domain::ids::TraceId;
use crate::store::dispatcher::rollups::{Flushed, Sum};
use crate::store::{Lease, Store, StoreError};

/// How often to look: a sum is told so long after the end of its minute, at most.
pub const PERIOD: Duration = Duration::from_secs(5);

/// Sums of each kind looked at in each partition in one pass.
const ROWS: usize = 32;

/// What one pass came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flush {
    /// Sums told.
    pub told: i64,
    /// Sums that could not be told.
    pub failed: usize,
    /// Whether more is due: go on at once.
    pub more: bool,
}

/// Tells the sums of past minutes, under the leases that it is given.
pub struct Sums {
    store: Store,
    source: &'static str,
    told: IntCounterVec,
}

impl Sums {
    /// A worker whose events of denials name `source`, the part of the service that refused. Its counter is
    /// `budget_sums_total{kind}`.
    ///
    /// # Errors
    /// When the name is taken in `registry`.
    pub fn new(
        store: Store,
        source: &'static str,
        registry: &Registry,
    ) -> prometheus::Result<Self> {
        let options = Opts::new(
            "budget_sums_total",
            "Facts that sum up refusals which were only counted.",
        );
        let told = IntCounterVec::new(options, &["kind"])?;
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
    /// [`StoreError`] when Redis is unavailable; what fails for one sum alone is logged instead.
    pub async fn run_once(
        &self,
        leases: &[Lease],
        mut lost: impl FnMut(Lease),
    ) -> Result<Flush, StoreError> {
        let mut flush = Flush::default();
        for sum in Sum::ALL {
            let told = self.tell(sum, leases, &mut lost, &mut flush).await?;
            self.told
                .with_label_values(&[sum.as_str()])
                .inc_by(told.unsigned_abs());
            flush.told += told;
        }
        Ok(flush)
    }

    /// Tells the sums of one kind; how many.
    async fn tell(
        &self,
        sum: Sum,
        leases: &[Lease],
        lost: &mut impl FnMut(Lease),
        flush: &mut Flush,
    ) -> Result<i64, StoreError> {
        let partitions: Vec<_> = leases.iter().map(|lease| lease.partition).collect();
        let polled = self.store.poll_sums(sum, &partitions, ROWS).await?;
        let now_ms = self.store.clock().now_ms();
        let mut all = 0;
        for (lease, found) in leases.iter().zip(polled) {
            // Its node is out of reach; the others need not wait.
            let Some(found) = found else { continue };
            let (rows, mut told) = (found.len(), 0);
            for due in found.into_iter().filter(|due| due.at_ms <= now_ms) {
                let (kind, member) = (sum.as_str(), due.member);
                let cause = self.cause();
                match self.store.flush_sum(sum, &member, *lease, &cause).await {
                    Ok(Flushed::Facts(count)) => told += count,
                    Ok(Flushed::Early | Flushed::WrongDay) => {}
                    Ok(Flushed::Fenced) => {
                        lost(*lease);
                        break;
                    }
                    Err(StoreError::Unavailable(error)) => return Err(error.into()),
                    Err(failure) => {
                        flush.failed += 1;
                        error!(
                            sum = kind, member, error = %failure,
                            "the {kind} of `{member}` could not be summed up: {failure}"
                        );
                    }
                }
            }
            all += told;
            flush.more |= rows == ROWS && told > 0;
        }
        Ok(all)
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
