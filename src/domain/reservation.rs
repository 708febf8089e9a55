//! A reservation as it is recorded.

use super::amount::Unit;
use super::budget::Balance;
use super::record::{Record, RecordError};
use super::scope::ScopePath;
use super::words::words;

/// Shortest and longest lifetime of a reservation, in milliseconds.
pub const RESERVATION_TTL_MS: std::ops::RangeInclusive<i64> = 1_000..=86_400_000;

words! {
    /// What has become of a reservation.
    Status {
        /// Its hold stands.
        Active = "ACTIVE",
        /// It was settled.
        Committed = "COMMITTED",
        /// It was given back.
        Released = "RELEASED",
        /// Its time is over.
        Expired = "EXPIRED",
    }
}

words! {
    /// What a list of reservations can be sorted by.
    ReservationSort {
        /// The id, by code point.
        ReservationId = "reservation_id",
        /// The subject's tenant, by code point; absent is empty.
        Tenant = "tenant",
        /// The subject's scope, by code point.
        ScopePath = "scope_path",
        /// The status, by code point.
        Status = "status",
        /// The estimate, whatever its unit.
        Reserved = "reserved",
        /// The time of creation; the indexed order.
        CreatedAtMs = "created_at_ms",
        /// The time at which the hold lapses.
        ExpiresAtMs = "expires_at_ms",
    }
}

impl Record {
    /// The unit that all amounts of the record count.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn unit(&self) -> Result<Unit, RecordError> {
        self.read("unit")
    }

    /// The deepest scope of the subject.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn scope_path(&self) -> Result<ScopePath, RecordError> {
        self.read("scope_path")
    }

    /// The status as it was written; see [`Record::effective_status`].
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn status(&self) -> Result<Status, RecordError> {
        self.read("status")
    }

    /// The status at `now_ms` on the store's clock: an active reservation past its grace has expired, swept or not.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn effective_status(&self, now_ms: i64) -> Result<Status, RecordError> {
        let status = self.status()?;
        let due_ms = self
            .integer("expires_at_ms")?
            .saturating_add(self.integer("grace_ms")?);
        if status == Status::Active && now_ms > due_ms {
            return Ok(Status::Expired);
        }
        Ok(status)
    }

    /// The ledgers as they were after `operation` (`create`, `commit`, `release`, `extend.…`), root first.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn balances(&self, operation: &str) -> Result<Vec<Balance>, RecordError> {
        let (unit, path) = (self.unit()?, self.scope_path()?);
        let depths = self.text("budgeted")?.split_whitespace();
        depths
            .map(|depth| {
                let field = format!("{operation}.{depth}");
                balance_at(&path, unit, depth, self.text(&field)?)
                    .ok_or_else(|| RecordError::of(&field))
            })
            .collect()
    }
}

/// The ledger of the enclosing scope at `depth` (root is 1), from its figures.
pub fn balance_at(path: &ScopePath, unit: Unit, depth: &str, snapshot: &str) -> Option<Balance> {
    let depth: usize = depth.parse().ok()?;
    let scope = path.with_parents().nth(depth.checked_sub(1)?)?;
    Balance::from_snapshot(scope, unit, snapshot)
}
