//! Refusals of the operations that reserve and charge.

use crate::domain::amount::{Amount, Unit};
use crate::domain::ids::ReservationId;
use crate::domain::reservation::Status;
use crate::domain::scope::ScopePath;
use crate::domain::words::words;

/// Why nothing can be reserved, charged or returned. Scopes are full paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReservationRefusal {
    /// There is no such reservation, or its record has been purged.
    NotFound(ReservationId),
    /// The reservation belongs to another tenant.
    OfOtherTenant,
    /// The reservation is past its expiry and grace period.
    Expired(ReservationId),
    /// The reservation has ended.
    Finalized {
        /// The reservation.
        reservation_id: ReservationId,
        /// How it has ended.
        status: Status,
    },
    /// The reservation has been extended as often as is allowed: so many times.
    TooManyExtensions(i64),
    /// The selected policy allows no more reservations at the scope in this minute.
    RateLimited {
        /// Scope of the request.
        scope: ScopePath,
        /// The policy.
        policy_id: String,
        /// Time until the next minute begins, in milliseconds.
        retry_in_ms: i64,
        /// When it begins, on the store's clock, in milliseconds.
        until_ms: i64,
    },
    /// The ledgers of the scope count other units.
    UnitMismatch {
        /// Scope of the ledgers.
        scope: String,
        /// Unit of the request.
        requested: Unit,
        /// Their units, in the order of [`Unit`].
        expected: Vec<Unit>,
    },
    /// Neither this scope nor any that encloses it has a ledger.
    BudgetNotFound(ScopePath),
    /// A ledger does not allow it.
    Denied {
        /// Reason.
        denial: Denial,
        /// Scope of the ledger.
        scope: String,
        /// What is to be reserved or charged.
        requested: Amount,
        /// What remains there; `None` where that makes no difference, as the ledger is not active.
        remaining: Option<i64>,
    },
    /// The charge exceeds the hold, and the overage policy is `REJECT`.
    OverageRejected {
        /// Scope of the reservation.
        scope: String,
        /// The hold.
        reserved: i64,
        /// The charge.
        requested: Amount,
    },
}

words! {
    /// Why an estimate cannot be held or a charge not be made; also the reason of a denial.
    Denial {
        /// Too little remains.
        BudgetExceeded = "BUDGET_EXCEEDED",
        /// The ledger is frozen.
        BudgetFrozen = "BUDGET_FROZEN",
        /// The ledger is closed.
        BudgetClosed = "BUDGET_CLOSED",
        /// No scope has a ledger in any unit.
        BudgetNotFound = "BUDGET_NOT_FOUND",
        /// The ledger is over its limit, or would be.
        OverdraftLimitExceeded = "OVERDRAFT_LIMIT_EXCEEDED",
        /// The ledger has debt.
        DebtOutstanding = "DEBT_OUTSTANDING",
        /// The tenant is closed.
        TenantClosed = "TENANT_CLOSED",
        /// The tenant is suspended.
        TenantSuspended = "TENANT_SUSPENDED",
    }
}
