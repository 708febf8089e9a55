//! What follows the flip of a tenant's status to CLOSED: its reservations, ledgers, subscriptions and API keys end, each once,
//! and last `tenant.closed` is told.
//!
//! The flip stores an intent, and the guard stands from then on. Each step is one script that does a bounded part, tells of
//! it and writes how far it came; so whoever takes the next step, after whatever crash, goes on right there, and two who
//! do so at once do nothing twice. The request goes on with its own close for [`REQUEST_PART`]; dispatchers take over what
//! is left, see [`crate::store::admin::closing`].

use std::time::Duration;

use tokio::time::Instant;
use tracing::error;

use crate::domain::cause::Cause;
use crate::domain::ids::TenantId;
use crate::store::admin::closing::{CloseStep, Phase, TurnEnd};
use crate::store::{Lane, Lease, Store, StoreError};

/// For how long a request goes on with the close that it began.
pub const REQUEST_PART: Duration = Duration::from_secs(5);

/// When others go on with it where nobody has said that the request's part is over.
pub const TAKE_OVER: Duration = Duration::from_secs(10);

/// How a turn at a close ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// All is closed, by this turn or before.
    Closed,
    /// The time was over; somebody goes on.
    Paused,
    /// Something cannot be closed; all is tried again later.
    Incomplete {
        /// How much later.
        again_in_ms: i64,
        /// Names of what it is, such as `budget:<scope>:<UNIT>`.
        failed: Vec<String>,
    },
    /// The caller's lease is another's.
    Fenced,
}

/// Whoever goes on with a tenant's close.
pub struct Closer<'a> {
    store: &'a Store,
    tenant: &'a TenantId,
    lease: Option<Lease>,
    phase: Phase,
    anything: bool,
}

impl<'a> Closer<'a> {
    /// `lease` is none for a request.
    pub fn new(store: &'a Store, tenant: &'a TenantId, lease: Option<Lease>) -> Self {
        Self {
            store,
            tenant,
            lease,
            // The first step tells if it is another.
            phase: Phase::Reservations,
            anything: false,
        }
    }

    /// Whether the close that this turn brought to its end had ended anything, by whomever.
    pub fn ended_anything(&self) -> bool {
        self.anything
    }

    /// Takes steps until the close is over, at most for about `time`.
    ///
    /// # Errors
    /// [`StoreError`] when Redis cannot be asked: the intent stands, and somebody goes on.
    pub async fn run(&mut self, time: Duration) -> Result<Turn, StoreError> {
        let until = Instant::now() + time;
        loop {
            let taken = match Instant::now() < until {
                true => self.step().await,
                false => self.end(TurnEnd::Pause).await,
            };
            match taken {
                Ok(Some(turn)) => return Ok(turn),
                Ok(None) => {}
                Err(unavailable @ StoreError::Unavailable(_)) => return Err(unavailable),
                Err(failure) => {
                    let (tenant, phase) = (self.tenant, self.phase.as_str());
                    error!(
                        tenant.id = %tenant, error = %failure,
                        "the {phase} of the closed tenant `{tenant}` could not be ended: {failure}"
                    );
                    while self.end(TurnEnd::Fail(phase)).await?.is_none() {}
                    return Ok(Turn::Incomplete {
                        again_in_ms: 0,
                        failed: vec![phase.to_owned()],
                    });
                }
            }
        }
    }

    /// Takes one step: one script. `None`: there is more to do.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn step(&mut self) -> Result<Option<Turn>, StoreError> {
        let step = self
            .store
            .close_step(self.tenant, self.phase, self.lease)
            .await?;
        if let CloseStep::SweepFirst(now_ms) = step {
            let (cause, token) = (Cause::sweep().lines(), self.lease.map(|lease| lease.token));
            self.store
                .expire(Lane::Background, self.tenant, &cause, Some(now_ms), token)
                .await?;
            return Ok(None);
        }
        Ok(self.after(step))
    }

    async fn end(&mut self, end: TurnEnd<'_>) -> Result<Option<Turn>, StoreError> {
        let step = self.store.end_close_turn(self.tenant, end, self.lease);
        let step = step.await?;
        Ok(self.after(step))
    }

    fn after(&mut self, step: CloseStep) -> Option<Turn> {
        match step {
            CloseStep::At(phase) => {
                self.phase = phase;
                None
            }
            CloseStep::SweepFirst(_) => None,
            CloseStep::Nothing => Some(Turn::Closed),
            CloseStep::Closed { anything } => {
                self.anything = anything;
                Some(Turn::Closed)
            }
            CloseStep::Paused => Some(Turn::Paused),
            CloseStep::Incomplete {
                again_in_ms,
                failed,
            } => Some(Turn::Incomplete {
                again_in_ms,
                failed,
            }),
            CloseStep::Fenced => Some(Turn::Fenced),
        }
    }
}
