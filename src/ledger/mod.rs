//! What a request of the runtime plane means before and after its script.

mod balances;
mod commit;
mod decide;
mod event;
mod extend;
mod facts;
mod get;
mod list;
mod policies;
mod release;
mod reserve;

pub use balances::{BalanceFilter, BalanceQuery};
pub use commit::{Commit, Committed};
pub use decide::{Decide, DecidedFor, Decision};
pub use event::{Post, Posted};
pub use extend::{Extend, Extended};
pub use get::Reservation;
pub use list::{Include, ReservationFilter, ReservationPage, ReservationQuery};
pub use release::{Release, Released};
pub use reserve::{Reserve, Reserved};

use std::sync::Arc;

use crate::domain::caller::RuntimeCaller;
use crate::domain::cause::Cause;
use crate::domain::ids::TenantId;
use crate::domain::policy::PolicySelection;
use crate::domain::record::RecordError;
use crate::domain::refusal::{Refusal, TooManyToSort};
use crate::domain::scope::ScopePath;
use crate::store::runtime::Answer;
use crate::store::runtime::expire::expire_tenant;
use crate::store::{ExtraTrip, Store, StoreError};
use policies::{Governed, PolicyCache};

/// The ledger: every operation of the runtime plane. Cheap to clone.
#[derive(Clone)]
pub struct Ledger {
    store: Store,
    denied_per_minute: u32,
    retention_days: i64,
    policies: Arc<PolicyCache>,
}

/// Why an operation did not do what it is for.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The ledger says no; nothing was changed.
    #[error("refused: {0:?}")]
    Refused(Refusal),
    /// The store could not answer, or answered nonsense.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A record that the operation depends on cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
}

impl From<TooManyToSort> for LedgerError {
    fn from(refusal: TooManyToSort) -> Self {
        Self::Refused(Refusal::TooManyToSort(refusal))
    }
}

/// How often an operation is repeated for reasons that a repetition cures; more would hide a bug.
const REPETITIONS_MAX: usize = 64;

impl Ledger {
    /// `denied_per_minute`: above it, a tenant's denials of one minute are counted and summed up, not told one by one.
    /// `retention_days`: how long ended reservations are kept, so how far back a list looks.
    pub fn new(store: Store, denied_per_minute: u32, retention_days: i64) -> Self {
        Self {
            store,
            denied_per_minute,
            retention_days,
            policies: Arc::new(PolicyCache::new()),
        }
    }

    /// Checks an API key on its own, for a request that fails before its script.
    ///
    /// # Errors
    /// [`Refusal::Unauthorized`], or [`Refusal::Forbidden`] when `permission` is not empty and missing.
    pub async fn authenticate(
        &self,
        caller: &RuntimeCaller,
        permission: &str,
    ) -> Result<(), LedgerError> {
        done(self.store.authenticate(caller, permission).await?)
    }
}

/// The outcome of a script that asks for no other call.
fn done<T>(answer: Answer<T>) -> Result<T, LedgerError> {
    match answer {
        Answer::Done(outcome) => Ok(outcome),
        Answer::Refused(refusal) => Err(LedgerError::Refused(refusal)),
        Answer::SweepFirst { .. } | Answer::Stale { .. } => Err(unexpected_repetition()),
    }
}

/// A script that goes on asking for what was done is mistaken.
fn unexpected_repetition() -> LedgerError {
    LedgerError::Store(StoreError::Reply {
        script: "runtime",
        position: 0,
        expected: "an outcome",
        found: "a call to repeat".to_owned(),
    })
}

/// The calls of a script until it has decided: after the tenant's dead holds were expired, or under the policy that counts
/// now.
struct Attempts<'a> {
    ledger: &'a Ledger,
    tenant: &'a TenantId,
    /// The policy, for a request that names a subject.
    governed: Option<Governed<'a>>,
    /// The time up to which dead holds have been expired, for the next call.
    swept_until_ms: Option<i64>,
    left: usize,
}

impl Attempts<'_> {
    /// The outcome, or `None` when the script is to be called again.
    async fn settled<T>(&mut self, answer: Answer<T>) -> Result<Option<T>, LedgerError> {
        match answer {
            Answer::Done(outcome) => return Ok(Some(outcome)),
            Answer::Refused(refusal) => return Err(LedgerError::Refused(refusal)),
            Answer::Stale { now_ms, version } => {
                let (store, governed) = (&self.ledger.store, self.governed.as_mut());
                let governed = governed.ok_or_else(unexpected_repetition)?;
                store.metrics().extra_trip(ExtraTrip::Stale);
                governed.renew(store, &version, now_ms).await?;
            }
            Answer::SweepFirst { now_ms } => {
                let trusted_ms = self.ledger.store.clock().trusted_ms(now_ms);
                let until_ms = *self.swept_until_ms.get_or_insert(trusted_ms);
                self.ledger.expire_dead_holds(self.tenant, until_ms).await?;
            }
        }
        self.left = self.left.checked_sub(1).ok_or_else(unexpected_repetition)?;
        Ok(None)
    }

    /// What the next call is to assume of policies.
    fn policy(&self) -> PolicySelection {
        let selection = self.governed.as_ref().map(Governed::selection);
        selection.cloned().unwrap_or_default()
    }
}

impl Ledger {
    /// For a request that names a subject.
    fn governed_attempts<'a>(&'a self, tenant: &'a TenantId, scope: &'a ScopePath) -> Attempts<'a> {
        let now_ms = self.store.clock().now_ms();
        Attempts {
            governed: Some(Governed::new(&self.policies, tenant, scope, now_ms)),
            ..self.attempts(tenant)
        }
    }

    fn attempts<'a>(&'a self, tenant: &'a TenantId) -> Attempts<'a> {
        Attempts {
            ledger: self,
            tenant,
            governed: None,
            swept_until_ms: None,
            left: REPETITIONS_MAX,
        }
    }

    /// Expires the holds of one tenant that were due before a time, page by page, until none is left. It is a sweep: its
    /// events name no request.
    async fn expire_dead_holds(
        &self,
        tenant: &TenantId,
        before_ms: i64,
    ) -> Result<(), LedgerError> {
        self.store.metrics().extra_trip(ExtraTrip::SweepFirst);
        expire_tenant(&self.store, tenant, &Cause::sweep().lines(), before_ms).await?;
        Ok(())
    }
}
