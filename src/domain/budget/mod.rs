//! A ledger's figures and the one law that holds for them.

pub mod funding;
pub mod ledger;

use super::amount::Unit;
use super::record::{Record, RecordError};
use super::scope::ScopePath;

/// One ledger at one moment. At every moment `remaining = allocated - spent - reserved - debt`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balance {
    /// The scope that the ledger belongs to.
    pub scope: ScopePath,
    /// What all the figures count.
    pub unit: Unit,
    /// What may be spent in all.
    pub allocated: i64,
    /// What was charged and funded.
    pub spent: i64,
    /// What active reservations hold.
    pub reserved: i64,
    /// What was charged beyond the funds.
    pub debt: i64,
    /// How much debt is allowed.
    pub overdraft_limit: i64,
    /// Whether new reservations are refused until the ledger is funded.
    pub is_over_limit: bool,
}

impl Balance {
    /// Reads `allocated spent reserved [debt overdraft_limit over]`, as scripts write a ledger's figures.
    ///
    /// `None` when it is anything else, or when no int64 is left over.
    pub fn from_snapshot(scope: ScopePath, unit: Unit, snapshot: &str) -> Option<Self> {
        let mut words = snapshot.split(' ');
        let mut figure = || words.next()?.parse::<i64>().ok();
        let (allocated, spent, reserved) = (figure()?, figure()?, figure()?);
        let (debt, overdraft_limit, is_over_limit) = match words.next() {
            None => (0, 0, false),
            Some(debt) => {
                let limit = words.next()?.parse().ok()?;
                (debt.parse().ok()?, limit, words.next()? == "1")
            }
        };
        let balance = Self {
            scope,
            unit,
            allocated,
            spent,
            reserved,
            debt,
            overdraft_limit,
            is_over_limit,
        };
        words.next().is_none().then_some(balance)?.consistent()
    }

    /// Reads the figures of a ledger's record. None of them is negative.
    ///
    /// # Errors
    /// [`RecordError`] names the field; `remaining` where no int64 is left over.
    pub fn from_record(scope: ScopePath, unit: Unit, record: &Record) -> Result<Self, RecordError> {
        let figure = |name: &str| match record.integer(name)? {
            ..0 => Err(RecordError::of(name)),
            figure => Ok(figure),
        };
        let balance = Self {
            scope,
            unit,
            allocated: figure("allocated")?,
            spent: figure("spent")?,
            reserved: figure("reserved")?,
            debt: figure("debt")?,
            overdraft_limit: figure("overdraft_limit")?,
            is_over_limit: record.get("is_over_limit") == Some("1"),
        };
        let remaining = || RecordError::of("remaining");
        balance.consistent().ok_or_else(remaining)
    }

    /// `None` when no int64 is left over.
    fn consistent(self) -> Option<Self> {
        i64::try_from(self.exact_remaining()).ok()?;
        Some(self)
    }

    /// What is left to reserve; negative in debt, or after the allocation was cut.
    pub fn remaining(&self) -> i64 {
        i64::try_from(self.exact_remaining()).unwrap_or(i64::MIN)
    }

    fn exact_remaining(&self) -> i128 {
        i128::from(self.allocated)
            - i128::from(self.spent)
            - i128::from(self.reserved)
            - i128::from(self.debt)
    }
}
