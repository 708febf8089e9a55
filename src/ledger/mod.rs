//! What a request of the runtime plane means before and after its script.

mod balances;
mod commit;
mod decide;
mod event;
mod extend;
mod list;
mod release;
mod reserve;

pub use balances::{BalancePage, BalanceQuery};
pub use commit::{Commit, Committed};
pub use decide::{Decide, Decision};
pub use event::{Post, Posted};
pub use extend::{Extend, Extended};
pub use list::{ReservationPage, ReservationQuery, ReservationRow};
pub use release::{Release, Released};
pub use reserve::{Reserve, Reserved};

use crate::domain::caller::{Caller, RuntimeCaller};
use crate::domain::cause::Cause;
use crate::domain::ids::{Partition, ReservationId};
use crate::domain::refusal::Refusal;
use crate::domain::reservation::{Record, RecordError, Status};
use crate::store::runtime::Answer;
use crate::store::{Store, StoreError};

/// The ledger: every operation of the runtime plane. Cheap to clone.
#[derive(Clone)]
pub struct Ledger {
    store: Store,
    denied_per_minute: u32,
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

/// How often an operation is repeated for reasons that a repetition cures; more would hide a bug.
const REPETITIONS_MAX: usize = 64;

impl Ledger {
    /// `denied_per_minute`: above it, a tenant's denials of one minute are counted and summed up, not told one by one.
    pub fn new(store: Store, denied_per_minute: u32) -> Self {
        Self {
            store,
            denied_per_minute,
        }
    }

    /// Reads a reservation.
    ///
    /// # Errors
    /// [`Refusal`] among them: not found, foreign, expired (also when no sweep has said so yet).
    pub async fn get(
        &self,
        caller: &Caller,
        reservation_id: &ReservationId,
    ) -> Result<(Record, Status), LedgerError> {
        let partition = match caller {
            Caller::Tenant(caller) => {
                self.refuse_foreign(caller, reservation_id, "reservations:list")
                    .await?;
                caller.partition
            }
            Caller::Admin(_) => reservation_id.partition().unwrap_or(Partition::ZERO),
        };
        let answer = self
            .store
            .get_reservation(caller, partition, reservation_id)
            .await?;
        let found = done(answer)?;
        match found.record.effective_status(found.now_ms)? {
            Status::Expired => Err(LedgerError::Refused(Refusal::Expired)),
            status => Ok((found.record, status)),
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

    /// An id that names another partition than the caller's belongs to another tenant, or to nobody: it is read where it
    /// lies, which no script of the caller's can do.
    async fn refuse_foreign(
        &self,
        caller: &RuntimeCaller,
        reservation_id: &ReservationId,
        permission: &str,
    ) -> Result<(), LedgerError> {
        let Some(partition) = reservation_id.partition().filter(|p| *p != caller.partition) else {
            return Ok(());
        };
        self.authenticate(caller, permission).await?;
        let reader = Caller::Admin(crate::domain::caller::AdminCaller::vouched());
        let answer = self
            .store
            .get_reservation(&reader, partition, reservation_id)
            .await?;
        done(answer)?;
        Err(LedgerError::Refused(Refusal::ForeignReservation))
    }
}

/// The outcome of a script that asks for no other call.
fn done<T>(answer: Answer<T>) -> Result<T, LedgerError> {
    match answer {
        Answer::Done(outcome) => Ok(outcome),
        Answer::Refused(refusal) => Err(LedgerError::Refused(refusal)),
        Answer::SweepFirst { .. } | Answer::WrongDay => Err(unexpected_repetition()),
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

/// Calls a script until it has decided: with other day keys, or after the dead holds of the tenant were expired.
///
/// `$call` is an expression of the swept-until time that runs the script once.
macro_rules! decided {
    ($ledger:expr, $caller:expr, |$swept:ident| $call:expr) => {{
        let mut $swept: Option<i64> = None;
        let mut repetitions = 0;
        loop {
            match $call.await? {
                Answer::Done(outcome) => break Ok(outcome),
                Answer::Refused(refusal) => break Err(LedgerError::Refused(refusal)),
                Answer::WrongDay => {}
                Answer::SweepFirst { now_ms } => {
                    let until = *$swept.get_or_insert(now_ms);
                    $ledger.expire_dead_holds(&$caller.tenant, until).await?;
                }
            }
            repetitions += 1;
            if repetitions > REPETITIONS_MAX {
                break Err(unexpected_repetition());
            }
        }
    }};
}
use decided;

impl Ledger {
    /// Expires the holds of one tenant that were due before a time, page by page, until none is left.
    async fn expire_dead_holds(
        &self,
        tenant: &crate::domain::ids::TenantId,
        before_ms: i64,
    ) -> Result<(), LedgerError> {
        self.store
            .metrics()
            .extra_trip(crate::store::ExtraTrip::SweepFirst);
        crate::store::expire::expire_tenant(&self.store, tenant, before_ms).await?;
        Ok(())
    }
}

/// The lines that a script appends to the facts of each event.
fn cause_lines(cause: &Cause) -> String {
    cause.lines()
}
