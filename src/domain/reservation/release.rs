//! Request and response of a release.

use super::amount;
use crate::domain::amount::{Amount, Unit};
use crate::domain::budget::Balance;
use crate::domain::evidence::{self, EvidenceRef};
use crate::domain::fields::object;
use crate::domain::ids::IdempotencyKey;
use crate::domain::record::{Record, RecordError};
use crate::domain::words::words;

object! {
    /// Returns a hold without a charge.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ReleaseRequest: Read {
        /// Identifies this attempt: the same key returns the hold once.
        pub idempotency_key: IdempotencyKey,
        /// Reason, for the record.
        pub reason: Option<String> { chars: ..=256 },
    }
}

words! {
    /// The only status of a release.
    ReleaseStatus: "SCREAMING_SNAKE_CASE" {
        /// Returned.
        Released,
    }
}

object! {
    /// Returned amount.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ReleaseResponse: Serialize {
        /// The reservation's status.
        pub status: ReleaseStatus,
        /// Amount returned to every budget: the whole hold.
        pub released: Amount,
        /// The budgets that held the reservation, root first, after the return.
        pub balances: Vec<Balance> { required: false },
        /// Where the signed evidence can be read.
        pub evidence: Option<EvidenceRef> { described: false, named_by: evidence::member_name },
    }
}

impl ReleaseResponse {
    pub(crate) fn new(
        unit: Unit,
        released: i64,
        balances: Vec<Balance>,
    ) -> Result<Self, RecordError> {
        Ok(Self {
            status: ReleaseStatus::Released,
            released: amount("estimate", unit, released)?,
            balances,
            evidence: None,
        })
    }

    /// The first response again.
    pub(crate) fn replayed(record: &Record) -> Result<Self, RecordError> {
        let balances = record.balances("release")?;
        Self::new(record.read("unit")?, record.integer("estimate")?, balances)
    }
}
