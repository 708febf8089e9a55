//! The figures of ledgers, which must agree with the responses to the unit.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::tools::table::Table;

/// The allocation of each budget: ample, and exact in 15 digits.
pub(super) const ALLOCATED: i64 = 900_000_000_000_000;

/// What one or many operations changed. All name the same subject, so the change is the same for each ledger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub reserved: i64,
    pub spent: i64,
}

impl Change {
    /// Adds so many changes like `other`.
    pub fn add(&mut self, other: Self, times: usize) {
        self.reserved += other.reserved * times as i64;
        self.spent += other.spent * times as i64;
    }
}

/// The figures of one ledger by name.
pub(super) type Figures = BTreeMap<&'static str, i64>;

const NAMES: [&str; 5] = ["allocated", "remaining", "reserved", "spent", "debt"];

/// The figures of a ledger as either plane returns it; absent ones are 0.
pub(super) fn figures(ledger: &Value) -> Figures {
    let amount = |name: &str| ledger[name]["amount"].as_i64().unwrap_or(0);
    NAMES.into_iter().map(|name| (name, amount(name))).collect()
}

/// The figures of a new ledger after a change. Budgets are ample and nothing is charged beyond its hold, so there is no debt.
pub(super) fn expected(Change { reserved, spent }: Change) -> Figures {
    let remaining = ALLOCATED - reserved - spent;
    let amounts = [ALLOCATED, remaining, reserved, spent, 0];
    NAMES.into_iter().zip(amounts).collect()
}

/// A ledger whose figures are not what the operations must have changed them to.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Difference {
    /// The full path.
    pub scope: String,
    /// The path of the operation that returned it.
    pub source: &'static str,
    pub expected: Figures,
    /// `None` when the ledger is missing.
    pub found: Option<Figures>,
}

/// A table of the ledgers that disagree with the responses; nothing when all agree.
pub(super) fn disagreement(ledger: &str, differences: &[Difference]) -> String {
    if differences.is_empty() {
        return String::new();
    }
    let mut table = Table::new(3, ["ledger", "source", ""].into_iter().chain(NAMES));
    for difference in differences {
        let found = difference.found.as_ref().map_or("missing", |_| "found");
        for (what, figures) in [
            ("expected", Some(&difference.expected)),
            (found, difference.found.as_ref()),
        ] {
            let cell = |name| figures.map_or_else(String::new, |figures| figures[name].to_string());
            let names = [&difference.scope, difference.source, what].map(str::to_owned);
            table.row(names.into_iter().chain(NAMES.map(cell)));
        }
    }
    format!("{ledger}: does NOT agree with the responses\n{table}")
}
