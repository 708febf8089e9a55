//! A ledger's figures, for which `remaining = allocated - spent - reserved - debt`.

pub mod increase;
pub mod ledger;
pub mod limit;
pub mod period;
pub mod projection;
pub mod turn;

use super::amount::{Amount, SignedAmount, Unit};
use super::fields::object;
use super::record::{Record, RecordError};
use super::scope::ScopePath;

object! {
    /// One budget at one moment. All amounts are of one unit, and `remaining = allocated - spent - reserved - debt`.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Balance: Serialize {
        /// The level itself, such as `workspace:prod`.
        pub scope: String,
        /// The whole path, such as `tenant:acme/workspace:prod`.
        pub scope_path: ScopePath,
        /// Amount that can still be reserved. Negative in debt.
        pub remaining: SignedAmount,
        /// Amount held by reservations.
        pub reserved: Amount { required: false },
        /// Charged amount.
        pub spent: Amount { required: false },
        /// Amount charged beyond the available funds. Absent when zero.
        pub debt: Option<Amount>,
        /// Allocated amount.
        pub allocated: Amount { required: false },
        /// How much debt is allowed. Absent when zero.
        pub overdraft_limit: Option<Amount>,
        /// Whether new reservations are refused until the budget is funded. Absent when not.
        pub is_over_limit: bool { required: false, skip_if: |over| !over },
    }
}

impl Balance {
    /// Reads `allocated spent reserved [debt overdraft_limit over]`, as scripts write a ledger's figures.
    ///
    /// `None` when it is anything else, when a figure is negative, or when what remains is no int64.
    pub fn from_snapshot(scope_path: ScopePath, unit: Unit, snapshot: &str) -> Option<Self> {
        let (mut words, mut count) = ([""; 6], 0);
        for word in snapshot.split(' ') {
            *words.get_mut(count)? = word;
            count += 1;
        }
        let figure = |place: usize| words[place].parse::<i64>().ok();
        let (debt, overdraft_limit, is_over_limit) = match count {
            3 => (0, 0, false),
            6 => (figure(3)?, figure(4)?, words[5] == "1"),
            _ => return None,
        };
        let figures = [figure(0)?, figure(1)?, figure(2)?, debt, overdraft_limit];
        Self::of(scope_path, unit, figures, is_over_limit).ok()
    }

    /// Reads the figures of a ledger's record.
    ///
    /// # Errors
    /// [`RecordError`] names the field; `remaining` where what remains is no int64.
    pub fn from_record(path: ScopePath, unit: Unit, record: &Record) -> Result<Self, RecordError> {
        let mut figures = [0; FIGURES.len()];
        for (figure, name) in figures.iter_mut().zip(FIGURES) {
            *figure = record.integer(name)?;
        }
        let is_over_limit = record.get("is_over_limit") == Some("1");
        Self::of(path, unit, figures, is_over_limit)
    }

    /// `figures`: as in [`FIGURES`].
    fn of(
        scope_path: ScopePath,
        unit: Unit,
        figures: [i64; FIGURES.len()],
        is_over_limit: bool,
    ) -> Result<Self, RecordError> {
        let amount = |place: usize| {
            let amount = Amount::new(unit, figures[place]);
            amount.ok_or_else(|| RecordError::of(FIGURES[place]))
        };
        let taken: i128 = figures[1..4].iter().copied().map(i128::from).sum();
        let remaining = i64::try_from(i128::from(figures[0]) - taken);
        let remaining = remaining.map_err(|_| RecordError::of("remaining"))?;
        let unless_zero = |amount: Amount| (amount.value() > 0).then_some(amount);
        Ok(Self {
            scope: scope_path.last_segment().to_owned(),
            scope_path,
            remaining: SignedAmount::new(unit, remaining),
            allocated: amount(0)?,
            spent: amount(1)?,
            reserved: amount(2)?,
            debt: unless_zero(amount(3)?),
            overdraft_limit: unless_zero(amount(4)?),
            is_over_limit,
        })
    }
}

/// Names of the stored figures.
const FIGURES: [&str; 5] = ["allocated", "spent", "reserved", "debt", "overdraft_limit"];

#[cfg(test)]
mod tests {
    use super::*;

    fn balance(snapshot: &str) -> Option<Balance> {
        let scope = ScopePath::parse("tenant:acme/workspace:prod").expect("a scope");
        Balance::from_snapshot(scope, Unit::Tokens, snapshot)
    }

    #[test]
    fn absent_figures_are_left_out_and_nothing_is_null() {
        let text = |snapshot| serde_json::to_string(&balance(snapshot).unwrap()).unwrap();
        assert_eq!(
            text("1000 0 300"),
            r#"{"scope":"workspace:prod","scope_path":"tenant:acme/workspace:prod","remaining":{"unit":"TOKENS","amount":700},"reserved":{"unit":"TOKENS","amount":300},"spent":{"unit":"TOKENS","amount":0},"allocated":{"unit":"TOKENS","amount":1000}}"#
        );
        let indebted = text("0 0 0 5 9223372036854775807 1");
        assert!(indebted.contains(r#""remaining":{"unit":"TOKENS","amount":-5}"#));
        assert!(indebted.contains(r#""debt":{"unit":"TOKENS","amount":5}"#));
        let limit = r#""overdraft_limit":{"unit":"TOKENS","amount":9223372036854775807}"#;
        assert!(indebted.contains(limit));
        assert!(indebted.ends_with(r#""is_over_limit":true}"#));
    }

    #[test]
    fn impossible_figures_are_refused() {
        for snapshot in [
            "1000 -1 300",
            "1000 0 0 -1 0 0",
            "0 9223372036854775807 9223372036854775807",
            "1000 0",
            "1000 0 0 1 2",
            "1000 0 0 1 2 0 7",
        ] {
            assert_eq!(balance(snapshot), None, "{snapshot}");
        }
    }
}
