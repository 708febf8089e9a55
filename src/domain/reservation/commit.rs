//! Request and response of a commit.

use super::amount;
use crate::domain::amount::{Amount, Unit};
use crate::domain::budget::Balance;
use crate::domain::evidence::{self, EvidenceRef};
use crate::domain::fields::object;
use crate::domain::ids::IdempotencyKey;
use crate::domain::json::FreeObject;
use crate::domain::record::{Record, RecordError};
use crate::domain::subject::Metrics;
use crate::domain::words::words;

object! {
    /// Reports what the action cost.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CommitRequest: Read {
        /// Identifies this attempt: the same key charges once.
        pub idempotency_key: IdempotencyKey,
        /// Actual amount, in the unit of the estimate.
        pub actual: Amount,
        /// Measurements of the client.
        pub metrics: Option<Metrics>,
        /// Data that the client chooses, returned with the reservation as `committed_metadata`.
        pub metadata: Option<FreeObject>,
    }
}

words! {
    /// The only status of a commit.
    CommitStatus: "SCREAMING_SNAKE_CASE" {
        /// Charged.
        Committed,
    }
}

object! {
    /// Charged amount.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CommitResponse: Serialize {
        /// The reservation's status.
        pub status: CommitStatus,
        /// Amount charged to every budget. Less than the actual amount if the overage policy caps it.
        pub charged: Amount,
        /// Returned amount. Absent if nothing was returned.
        pub released: Option<Amount>,
        /// The budgets that held the reservation, root first, after the charge.
        pub balances: Vec<Balance> { required: false },
        /// Where the signed evidence can be read.
        pub evidence: Option<EvidenceRef> { described: false, named_by: evidence::member_name },
    }
}

impl CommitResponse {
    pub(crate) fn new(
        unit: Unit,
        charged: i64,
        released: i64,
        balances: Vec<Balance>,
    ) -> Result<Self, RecordError> {
        let released = (released > 0).then(|| amount("released", unit, released));
        Ok(Self {
            status: CommitStatus::Committed,
            charged: amount("charged", unit, charged)?,
            released: released.transpose()?,
            balances,
            evidence: None,
        })
    }

    /// The first response again.
    pub(crate) fn replayed(record: &Record) -> Result<Self, RecordError> {
        let charged = record.integer("charged")?;
        let released = record.integer("estimate")? - charged;
        let balances = record.balances("commit")?;
        Self::new(record.read("unit")?, charged, released, balances)
    }
}
