//! Adds up what the operations did, and compares it with the ledgers, to the unit.

use serde::Serialize;
use serde_json::Value;

use crate::api::operations::OperationId;
use crate::tools::table::Table;

/// What an operation did to each ledger of its subject.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Effect {
    /// Id of the reservation or usage event that it made.
    pub id: Option<String>,
    /// Change of `reserved`; negative for a commit or release.
    pub reserved: i64,
    /// Change of `spent`.
    pub spent: i64,
}

/// The effects of many operations. Every request names the same subject, so each of its scopes has these totals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    reserved: i128,
    spent: i128,
}

impl Totals {
    /// Adds one operation.
    pub fn count(&mut self, effect: &Effect) {
        self.count_times(effect, 1);
    }

    /// Adds so many operations of the same effect.
    pub fn count_times(&mut self, effect: &Effect, times: usize) {
        self.reserved += i128::from(effect.reserved) * times as i128;
        self.spent += i128::from(effect.spent) * times as i128;
    }

    /// Adds the totals of another run on the same ledgers.
    pub fn add(&mut self, other: &Self) {
        self.reserved += other.reserved;
        self.spent += other.spent;
    }

    /// The figures of a ledger that started with `allocated` and nothing else. Budgets are ample and nothing is charged
    /// beyond its hold, so there is no debt.
    pub fn expected(&self, allocated: i64) -> Figures {
        let allocated = i128::from(allocated);
        Figures {
            allocated,
            remaining: allocated - self.spent - self.reserved,
            reserved: self.reserved,
            spent: self.spent,
            debt: 0,
        }
    }
}

/// The figures of one ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Figures {
    pub allocated: i128,
    pub remaining: i128,
    pub reserved: i128,
    pub spent: i128,
    pub debt: i128,
}

impl Figures {
    /// The figures of a ledger as either plane returns it; absent ones are 0.
    fn of(ledger: &Value) -> Self {
        let amount = |name: &str| i128::from(ledger[name]["amount"].as_i64().unwrap_or(0));
        Self {
            allocated: amount("allocated"),
            remaining: amount("remaining"),
            reserved: amount("reserved"),
            spent: amount("spent"),
            debt: amount("debt"),
        }
    }
}

/// The full path of a ledger's scope; on the runtime plane `scope` is only the last segment.
fn path(ledger: &Value) -> Option<&str> {
    let path = ledger.get("scope_path").or_else(|| ledger.get("scope"))?;
    path.as_str()
}

/// A ledger whose figures are not the totals of the operations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Difference {
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
    let headings = "ledger, source, , allocated, remaining, reserved, spent, debt";
    let mut table = Table::new(3, headings.split(", "));
    for it in differences {
        for (what, figures) in [("expected", Some(it.expected)), ("found", it.found)] {
            let what = figures.map_or("missing", |_| what);
            let names = [&it.scope, it.source, what].map(str::to_owned);
            let amounts =
                figures.map(|it| [it.allocated, it.remaining, it.reserved, it.spent, it.debt]);
            let amounts =
                amounts.map_or_else(Default::default, |amounts| amounts.map(|it| it.to_string()));
            table.row(names.into_iter().chain(amounts));
        }
    }
    format!("{ledger}: does NOT agree with the responses\n{table}")
}

/// Compares the ledgers of `scopes` with the figures that each must have.
pub(super) fn differences(
    operation: OperationId,
    scopes: &[String],
    expected: Figures,
    ledgers: &[Value],
) -> Vec<Difference> {
    let difference = |scope: &String| {
        let found = ledgers.iter().find(|ledger| path(ledger) == Some(scope));
        let found = found.map(Figures::of);
        (found != Some(expected)).then(|| Difference {
            scope: scope.clone(),
            source: operation.path(),
            expected,
            found,
        })
    };
    scopes.iter().filter_map(difference).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn totals_predict_every_figure() {
        let mut totals = Totals::default();
        // Three reserves; a commit of 60 and a release that end two of them; an event and a decision.
        for (reserved, spent) in [
            (100, 0),
            (50, 0),
            (7, 0),
            (-100, 60),
            (-50, 0),
            (0, 9),
            (0, 0),
        ] {
            totals.count(&Effect {
                id: None,
                reserved,
                spent,
            });
        }
        let figures = totals.expected(1_000);
        let found = (figures.reserved, figures.spent, figures.remaining);
        assert_eq!(found, (7, 69, 924));
        let remaining = totals.expected(i64::MAX).remaining;
        assert_eq!(remaining, i128::from(i64::MAX) - 76);
    }

    #[test]
    fn a_unit_too_many_is_a_difference() {
        let scopes = ["tenant:t".to_owned(), "tenant:t/app:a".to_owned()];
        let expected = Totals::default().expected(10);
        let ledger = |scope: &String, spent: i64| {
            json!({"scope": scope, "allocated": {"amount": 10}, "remaining": {"amount": 10 - spent},
                "spent": {"amount": spent}})
        };
        let compare = |ledgers: &[Value]| {
            differences(OperationId::GetBalances, &scopes, expected, ledgers).len()
        };
        let both = |spent| [ledger(&scopes[0], 0), ledger(&scopes[1], spent)];
        assert_eq!(compare(&both(0)), 0);
        assert_eq!(compare(&both(1)), 1);
        assert_eq!(compare(&[]), 2);
        let missing = differences(OperationId::GetBalances, &scopes, expected, &[]);
        let text = disagreement("ledger", &missing);
        assert!(
            text.contains("does NOT agree") && text.contains("missing"),
            "{text}"
        );
    }

    #[test]
    fn ledgers_of_both_planes_are_read() {
        let runtime = r#"{"scope":"app:a","scope_path":"tenant:t/app:a","remaining":{"unit":"TOKENS","amount":-3},
            "reserved":{"unit":"TOKENS","amount":0},"spent":{"unit":"TOKENS","amount":1},
            "allocated":{"unit":"TOKENS","amount":1},"debt":{"unit":"TOKENS","amount":3}}"#;
        let admin = r#"{"ledger_id":"x","scope":"tenant:t/app:a","allocated":{"amount":1},"remaining":{"amount":-3},
            "spent":{"amount":1},"debt":{"amount":3}}"#;
        for text in [admin, runtime] {
            let ledger: Value = serde_json::from_str(text).expect("a ledger");
            assert_eq!(path(&ledger), Some("tenant:t/app:a"));
            let figures = Figures::of(&ledger);
            let found = (figures.remaining, figures.debt, figures.reserved);
            assert_eq!(found, (-3, 3, 0));
        }
    }
}
