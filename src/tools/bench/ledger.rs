//! Keeps account of what the answers said, to the unit, and holds it against what the service says afterwards.

use serde::{Deserialize, Serialize};

use super::answer::Outcome;

/// What the answers said in sum. Every request names the same subject, so each of its scopes has these sums.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// Held by reserves.
    pub reserved: i128,
    /// Charged by commits.
    pub charged: i128,
    /// Returned by commits and releases.
    pub released: i128,
    /// Charged by events.
    pub posted: i128,
}

impl Sums {
    /// Books one outcome, once.
    pub fn book(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Reserved { amount, .. } => self.reserved += i128::from(*amount),
            Outcome::Committed { charged, released } => {
                self.charged += i128::from(*charged);
                self.released += i128::from(*released);
            }
            Outcome::Released { amount } => self.released += i128::from(*amount),
            Outcome::Posted { charged, .. } => self.posted += i128::from(*charged),
            Outcome::Allowed => {}
        }
    }

    /// Books what somebody else did on the same ledgers.
    pub fn add(&mut self, other: &Self) {
        self.reserved += other.reserved;
        self.charged += other.charged;
        self.released += other.released;
        self.posted += other.posted;
    }

    /// What a ledger must show that started with `allocated` and nothing else. Budgets are ample and nothing is charged
    /// beyond its hold, so there is no debt.
    pub fn expected(&self, allocated: i64) -> Figures {
        let (allocated, spent) = (i128::from(allocated), self.charged + self.posted);
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

/// One ledger as either plane tells it.
#[derive(Debug, Deserialize)]
pub(super) struct Told {
    /// The full path on the admin plane; on the runtime plane the last segment.
    scope: String,
    scope_path: Option<String>,
    allocated: Amount,
    remaining: Amount,
    #[serde(default)]
    reserved: Amount,
    #[serde(default)]
    spent: Amount,
    #[serde(default)]
    debt: Amount,
}

#[derive(Debug, Default, Deserialize)]
struct Amount {
    amount: i64,
}

impl Told {
    /// The full path of the scope.
    pub fn path(&self) -> &str {
        self.scope_path.as_deref().unwrap_or(&self.scope)
    }

    pub fn figures(&self) -> Figures {
        Figures {
            allocated: self.allocated.amount.into(),
            remaining: self.remaining.amount.into(),
            reserved: self.reserved.amount.into(),
            spent: self.spent.amount.into(),
            debt: self.debt.amount.into(),
        }
    }
}

/// A ledger that does not show what the answers add up to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Difference {
    pub scope: String,
    /// Where it was read.
    pub source: &'static str,
    pub expected: Figures,
    /// `None` when the scope is not there at all.
    pub found: Option<Figures>,
}

/// Compares the ledgers of `scopes` as `source` tells them.
pub(super) fn differences(
    source: &'static str,
    scopes: &[String],
    expected: Figures,
    told: &[(String, Figures)],
) -> Vec<Difference> {
    let mut differences = Vec::new();
    for scope in scopes {
        let found = told.iter().find(|(path, _)| path == scope);
        let found = found.map(|(_, figures)| *figures);
        if found != Some(expected) {
            differences.push(Difference {
                scope: scope.clone(),
                source,
                expected,
                found,
            });
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_predict_every_figure() {
        let mut sums = Sums::default();
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
            Outcome::Posted {
                event: String::new(),
                charged: 9,
            },
            Outcome::Allowed,
        ] {
            sums.book(&outcome);
        }
        let figures = sums.expected(1_000);
        assert_eq!(
            (figures.reserved, figures.spent, figures.remaining),
            (7, 69, 924)
        );
        assert_eq!(sums.expected(i64::MAX).remaining, i128::from(i64::MAX) - 76);
    }

    #[test]
    fn a_unit_too_many_is_a_difference() {
        let sums = Sums::default();
        let scopes = ["tenant:t".to_owned(), "tenant:t/app:a".to_owned()];
        let expected = sums.expected(10);
        let compare = |told: &[(String, Figures)]| differences("x", &scopes, expected, told).len();
        let off = Figures {
            spent: 1,
            remaining: 9,
            ..expected
        };
        let told = |second| [(scopes[0].clone(), expected), (scopes[1].clone(), second)];
        assert_eq!(compare(&told(expected)), 0);
        assert_eq!(compare(&told(off)), 1);
        assert_eq!(compare(&[]), 2);
    }

    #[test]
    fn both_planes_are_read() {
        let runtime = r#"{"scope":"app:a","scope_path":"tenant:t/app:a","remaining":{"unit":"TOKENS","amount":-3},
            "reserved":{"unit":"TOKENS","amount":0},"spent":{"unit":"TOKENS","amount":1},
            "allocated":{"unit":"TOKENS","amount":1},"debt":{"unit":"TOKENS","amount":3}}"#;
        let admin = r#"{"ledger_id":"x","scope":"tenant:t/app:a","allocated":{"amount":1},"remaining":{"amount":-3},
            "spent":{"amount":1},"debt":{"amount":3}}"#;
        for text in [admin, runtime] {
            let told: Told = serde_json::from_str(text).expect("a ledger");
            assert_eq!(told.path(), "tenant:t/app:a");
            let figures = told.figures();
            assert_eq!(
                (figures.remaining, figures.debt, figures.reserved),
                (-3, 3, 0)
            );
        }
    }
}
