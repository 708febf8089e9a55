//! Tells that the time of API keys is over. The status of a key follows from the clock wherever it is read, so this worker
//! changes nothing but what is told; it tells of each key once, for what is left to be told and the event are one script.

use std::time::Duration;

use prometheus::{IntCounter, Registry};
use tracing::error;

use crate::dispatcher::sweep::ClockWatch;
use crate::domain::cause::Cause;
use crate::store::dispatcher::rollups::Flushed;
use crate::store::{Lease, Store, StoreError};

/// How often to look: an expiry is told so long after it, at most.
pub const PERIOD: Duration = Duration::from_secs(5);

/// Keys looked at in each partition in one pass.
const ROWS: usize = 32;

/// What one pass came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Expired {
    /// Keys whose expiry was told.
    pub told: i64,
    /// Keys of which nothing could be told.
    pub failed: usize,
    /// Whether more is due: go on at once.
    pub more: bool,
}

/// Tells of expired API keys, under the leases that it is given.
pub struct KeyExpiry {
    store: Store,
    clock: ClockWatch,
    told: IntCounter,
}

impl KeyExpiry {
    /// A worker that halts while `clock` is in doubt: what was told cannot be taken back. Its counter is
    /// `budget_api_keys_expired_total`.
    ///
    /// # Errors
    /// When the name is taken in `registry`.
    pub fn new(store: Store, clock: ClockWatch, registry: &Registry) -> prometheus::Result<Self> {
        let told = IntCounter::new(
            "budget_api_keys_expired_total",
            "API keys whose expiry was told here.",
        )?;
        registry.register(Box::new(told.clone()))?;
        Ok(Self { store, clock, told })
    }

    /// One pass over the partitions of `leases`. Those that turn out to be another dispatcher's are told to `lost`.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable; what fails for one key alone is logged instead.
    pub async fn run_once(
        &self,
        leases: &[Lease],
        mut lost: impl FnMut(Lease),
    ) -> Result<Expired, StoreError> {
        let mut pass = Expired::default();
        let Some(now_ms) = self.clock.now_ms(&self.store).await? else {
            return Ok(pass);
        };
        let partitions: Vec<_> = leases.iter().map(|lease| lease.partition).collect();
        let polled = self.store.poll_expiring(&partitions, ROWS).await?;
        for (lease, found) in leases.iter().zip(polled) {
            // Its node is out of reach; the others need not wait.
            let Some(found) = found else { continue };
            let mut flushed = 0;
            for due in found.into_iter().filter(|due| due.at_ms <= now_ms) {
                let (key, cause) = (due.member, Cause::sweep().lines());
                match self.store.expire_api_key(&key, *lease, &cause).await {
                    Ok(Flushed::Facts(count)) => {
                        pass.told += count;
                        self.told.inc_by(count.unsigned_abs());
                        flushed += 1;
                    }
                    Ok(Flushed::Early | Flushed::WrongDay) => {}
                    Ok(Flushed::Fenced) => {
                        lost(*lease);
                        break;
                    }
                    Err(StoreError::Unavailable(error)) => return Err(error.into()),
                    Err(failure) => {
                        pass.failed += 1;
                        error!(
                            key, error = %failure,
                            "the expiry of the API key `{key}` could not be told: {failure}"
                        );
                    }
                }
            }
            pass.more |= flushed == ROWS;
        }
        Ok(pass)
    }
}
