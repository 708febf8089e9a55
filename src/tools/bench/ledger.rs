//! Adds up what the responses said, and compares it with the ledgers, to the unit.

use serde::Serialize;
use serde_json::Value;

use super::response::Outcome;

/// What the responses said in total. Every request names the same subject, so each of its scopes has these totals.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Held by reserves.
    pub reserved: i128,
    /// Charged by commits.
    pub charged: i128,
    /// Returned by commits and releases.
    pub released: i128,
    /// Charged by events, without a hold.
    pub charged_by_events: i128,
}

impl Totals {
    /// Adds one outcome.
    pub fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Reserved { amount, .. } => self.reserved += i128::from(*amount),
            Outcome::Committed { charged, released } => {
                self.charged += i128::from(*charged);
                self.released += i128::from(*released);
            }
            Outcome::Released { amount } => self.released += i128::from(*amount),
            Outcome::Charged { amount, .. } => self.charged_by_events += i128::from(*amount),
            Outcome::Allowed => {}
        }
    }

    /// Adds the totals of another run on the same ledgers.
    pub fn add(&mut self, other: &Self) {
        self.reserved += other.reserved;
        self.charged += other.charged;
        self.released += other.released;
        self.charged_by_events += other.charged_by_events;
    }

    /// The figures of a ledger that started with `allocated` and nothing else. Budgets are ample and nothing is charged
    /// beyond its hold, so there is no debt.
    pub fn expected(&self, allocated: i64) -> Figures {
        let allocated = i128::from(allocated);
        let spent = self.charged + self.charged_by_events;
        let reserved = self.reserved - self.charged - self.released;
        Figures {
            allocated,
            remaining: allocated - spent - reserved,
            reserved,
            spent,
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

/// A ledger whose figures are not the totals of the responses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Difference {
    pub scope: String,
    /// The operation that returned it.
    pub source: &'static str,
    pub expected: Figures,
    /// `None` when the ledger is missing.
    pub found: Option<Figures>,
}

/// Compares the ledgers of `scopes` with the figures that each must have.
pub(super) fn differences(
    source: &'static str,
    scopes: &[String],
    expected: Figures,
    ledgers: &[Value],
) -> Vec<Difference> {
    let difference = |scope: &String| {
        let found = ledgers.iter().find(|ledger| path(ledger) == Some(scope));
        let found = found.map(Figures::of);
        (found != Some(expected)).then(|| Difference {
            scope: scope.clone(),
            source,
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
        let reserved = |amount| Outcome::Reserved {
            reservation: String::new(),
            amount,
        };
        for outcome in [
            reserved(100),
            reserved(50),
            reserved(7),
            Outcome::Committed {
                charged: 60,
                released: 40,
            },
            Outcome::Released { amount: 50 },
            Outcome::Charged {
                event: String::new(),
                amount: 9,
            },
            Outcome::Allowed,
        ] {
            totals.count(&outcome);
        }
        let figures = totals.expected(1_000);
        assert_eq!(
            (figures.reserved, figures.spent, figures.remaining),
            (7, 69, 924)
        );
        assert_eq!(
            totals.expected(i64::MAX).remaining,
            i128::from(i64::MAX) - 76
        );
    }

    #[test]
    fn a_unit_too_many_is_a_difference() {
        let scopes = ["tenant:t".to_owned(), "tenant:t/app:a".to_owned()];
        let expected = Totals::default().expected(10);
        let ledger = |scope: &String, spent: i64| {
            json!({"scope": scope, "allocated": {"amount": 10}, "remaining": {"amount": 10 - spent},
                "spent": {"amount": spent}})
        };
        let compare = |ledgers: &[Value]| differences("x", &scopes, expected, ledgers).len();
        let both = |spent| [ledger(&scopes[0], 0), ledger(&scopes[1], spent)];
        assert_eq!(compare(&both(0)), 0);
        assert_eq!(compare(&both(1)), 1);
        assert_eq!(compare(&[]), 2);
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
            let Figures {
                remaining,
                debt,
                reserved,
                ..
            } = Figures::of(&ledger);
            assert_eq!((remaining, debt, reserved), (-3, 3, 0));
        }
    }
}
