//! The close of a tenant after its status became CLOSED: its reservations, ledgers, subscriptions and API keys end, each
//! once, and last `tenant.closed` is emitted.
//!
//! The change of the status stores an intent. Each step is one script that does a bounded part, emits its events and stores
//! how far it came. So any process can resume after a crash, and two processes at once do nothing twice. The request works
//! on its own close for [`REQUEST_PART`]; dispatchers resume the rest, see [`crate::store::admin::closing`].

use std::time::Duration;

use tokio::time::Instant;
use tracing::error;

use crate::domain::cause::Cause;
use crate::domain::ids::TenantId;
use crate::store::admin::closing::{CloseEnd, CloseReply, Phase};
use crate::store::signature::Refused;
use crate::store::{Lane, Lease, ScriptError, Store, StoreError, outcome};

/// How long a request works on the close that it began.
pub const REQUEST_PART: Duration = Duration::from_secs(5);

/// After how long others resume the close when the request has not handed it over.
pub const TAKE_OVER: Duration = Duration::from_secs(10);

/// The state of a close after a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloseProgress {
    /// Everything is closed, by this run or before.
    Closed,
    /// The time was over; another process resumes it.
    Paused,
    /// Something could not be closed; the close is retried later.
    Incomplete {
        /// How much later, in milliseconds.
        again_in_ms: i64,
        /// Names of what could not be closed, such as `budget:<scope>:<UNIT>`.
        failed: Vec<String>,
    },
    /// Another dispatcher holds the lease.
    Fenced,
}

/// Works on the close of a tenant.
pub struct Closer<'a> {
    store: &'a Store,
    tenant: &'a TenantId,
    lease: Option<Lease>,
    phase: Phase,
    anything: bool,
}

impl<'a> Closer<'a> {
    /// A request has no `lease`.
    pub fn new(store: &'a Store, tenant: &'a TenantId, lease: Option<Lease>) -> Self {
        Self {
            store,
            tenant,
            lease,
            // The first step replies with the phase of the close.
            phase: Phase::Reservations,
            anything: false,
        }
    }

    /// Whether the close that this run finished has ended anything, by any process.
    pub fn ended_anything(&self) -> bool {
        self.anything
    }

    /// Takes steps until the close has finished, for about `time` at most.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable; the intent remains, and another process resumes the close.
    pub async fn run(&mut self, time: Duration) -> Result<CloseProgress, StoreError> {
        let until = Instant::now() + time;
        loop {
            let taken = match Instant::now() < until {
                true => self.step().await,
                false => self.end(CloseEnd::Pause).await,
            };
            match taken {
                Ok(Some(progress)) => return Ok(progress),
                Ok(None) => {}
                Err(unavailable @ StoreError::Unavailable(_)) => return Err(unavailable),
                Err(failure) => {
                    let (tenant, phase) = (self.tenant, self.phase.as_str());
                    error!(
                        tenant.id = %tenant, error = %failure,
                        "the {phase} of the closed tenant `{tenant}` could not be ended: {failure}"
                    );
                    while self.end(CloseEnd::Fail(phase)).await?.is_none() {}
                    return Ok(CloseProgress::Incomplete {
                        again_in_ms: 0,
                        failed: vec![phase.to_owned()],
                    });
                }
            }
        }
    }

    /// Takes one step, which is one script; `None` when more is to do.
    pub async fn step(&mut self) -> Result<Option<CloseProgress>, StoreError> {
        let (store, tenant) = (self.store, self.tenant);
        let step = store.close_step(tenant, self.phase, self.lease).await;
        if let Err(ScriptError::Refused(Refused::SweepFirst { now_ms }, _)) = step {
            let (lane, cause) = (Lane::Background, Cause::sweep().lines());
            let expired = store.expire(lane, tenant, &cause, Some(now_ms), self.lease);
            return expired.await.map(|_| None);
        }
        self.after(step)
    }

    async fn end(&mut self, end: CloseEnd<'_>) -> Result<Option<CloseProgress>, StoreError> {
        let step = self.store.end_close(self.tenant, end, self.lease).await;
        self.after(step)
    }

    fn after(
        &mut self,
        step: Result<CloseReply, ScriptError>,
    ) -> Result<Option<CloseProgress>, StoreError> {
        if let Err(ScriptError::Refused(Refused::Fenced, _)) = step {
            return Ok(Some(CloseProgress::Fenced));
        }
        Ok(Some(match outcome(step)? {
            CloseReply::At { phase } => {
                self.phase = phase;
                return Ok(None);
            }
            CloseReply::Nothing => CloseProgress::Closed,
            CloseReply::Closed { anything } => {
                self.anything = anything;
                CloseProgress::Closed
            }
            CloseReply::Paused => CloseProgress::Paused,
            CloseReply::Incomplete {
                again_in_ms,
                failed,
            } => CloseProgress::Incomplete {
                again_in_ms,
                failed,
            },
        }))
    }
}
