//! A reservation as it is recorded, and the requests and responses that evidence attests.

mod commit;
mod decide;
pub(crate) mod facts;
mod refund;
mod release;
mod reserve;

use super::amount::{Amount, Unit};
use super::budget::Balance;
use super::record::{Record, RecordError};
use super::scope::ScopePath;
use super::words::words;
pub use commit::{CommitRequest, CommitResponse, CommitStatus};
pub use decide::{Decision, DecisionRequest, DecisionResponse, ObservedRefusal, OutcomeKind};
pub use refund::{NotRefunded, NotRefundedReason, RefundRequest, RefundResponse};
pub use release::{ReleaseRequest, ReleaseResponse, ReleaseStatus};
pub use reserve::{ObserveMode, ReservationCreateRequest, ReservationCreateResponse};

/// Shortest and longest lifetime of a reservation, in milliseconds.
pub const RESERVATION_TTL_MS: std::ops::RangeInclusive<i64> = 1_000..=86_400_000;

/// How long after expiry a commit still counts, where a request does not say, in milliseconds.
pub const GRACE_PERIOD_MS_DEFAULT: i64 = 5_000;

/// Usage events are kept at least this many days, because a client may retry the charge of a lost reservation for days and must get a
/// replay.
pub const USAGE_EVENT_DAYS_MIN: i64 = 7;

words! {
    /// Status of a reservation.
    Status: "SCREAMING_SNAKE_CASE" {
        /// It holds its estimate in each budget.
        Active,
        /// A commit charged it.
        Committed,
        /// It was released without a charge.
        Released,
        /// Its grace period is over.
        Expired,
    }
}

impl Record {
    /// The status at `now_ms` on the store's clock: an active reservation past its grace has expired, swept or not.
    pub fn effective_status(&self, now_ms: i64) -> Result<Status, RecordError> {
        let status = self.read("status")?;
        let due_ms = self
            .integer("expires_at_ms")?
            .saturating_add(self.integer("grace_ms")?);
        if status == Status::Active && now_ms > due_ms {
            return Ok(Status::Expired);
        }
        Ok(status)
    }

    /// The ledgers as they were after `operation` (`create`, `commit`, `release`, `extend.…`), root first.
    pub fn balances(&self, operation: &str) -> Result<Vec<Balance>, RecordError> {
        let depths = self.text("budgeted")?;
        let snapshot = |depth: &str| self.text(&format!("{operation}.{depth}"));
        let snapshots: Result<Vec<_>, _> = depths.split_whitespace().map(snapshot).collect();
        balances_at(
            &self.read("scope_path")?,
            self.read("unit")?,
            depths,
            &snapshots?,
        )
    }
}

/// The ledgers of the scopes at these depths of a path (the root's is 1), each from its figures.
///
/// # Errors
/// [`RecordError`] names the depth whose figures are missing or unreadable.
pub fn balances_at<S: AsRef<str>>(
    path: &ScopePath,
    unit: Unit,
    depths: &str,
    snapshots: &[S],
) -> Result<Vec<Balance>, RecordError> {
    let balance = |(place, depth): (usize, &str)| {
        let scope = path
            .with_parents()
            .nth(depth.parse::<usize>().ok()?.checked_sub(1)?)?;
        Balance::from_snapshot(scope, unit, snapshots.get(place)?.as_ref())
    };
    let depths = depths.split_whitespace().enumerate();
    let balances = depths.map(|at| balance(at).ok_or_else(|| RecordError::of(at.1)));
    balances.collect()
}

/// What is left of a reservation's life, in milliseconds; 0 once it has ended.
pub(crate) fn remaining_ttl_ms(status: Status, expires_at_ms: i64, now_ms: i64) -> i64 {
    match status {
        Status::Active => (expires_at_ms - now_ms).max(0),
        Status::Committed | Status::Released | Status::Expired => 0,
    }
}

/// An amount of a record or a reply; `name` is for the error.
pub(crate) fn amount(name: &str, unit: Unit, value: i64) -> Result<Amount, RecordError> {
    Amount::new(unit, value).ok_or_else(|| RecordError::of(name))
}
