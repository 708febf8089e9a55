//! Outcomes of the rows of a bulk action.

use serde::Serialize;

use super::Bulk;
use crate::domain::fields::object;

/// Outcome of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is as asked.
    Succeeded,
    /// The tenant is closed, and its close continues.
    SucceededInProgress,
    /// It could not be done.
    Failed {
        /// Error code.
        code: String,
        /// Message.
        message: String,
    },
    /// There was nothing to do.
    Skipped(String),
    /// Not final: the tenant is closed, by this action if `fresh`, and its close continues.
    Closing {
        /// Whether it was open before.
        fresh: bool,
    },
}

impl Outcome {
    /// A failure.
    pub fn failed(code: &str, message: &str) -> Self {
        Self::Failed {
            code: code.to_owned(),
            message: message.to_owned(),
        }
    }

    /// The text that is kept.
    pub fn stored(&self) -> String {
        match self {
            Self::Succeeded => "succeeded".to_owned(),
            Self::SucceededInProgress => "succeeded in_progress".to_owned(),
            Self::Failed { code, message } => format!("failed {code} {message}"),
            Self::Skipped(reason) => format!("skipped {reason}"),
            Self::Closing { fresh: true } => "closing".to_owned(),
            Self::Closing { fresh: false } => "closing_again".to_owned(),
        }
    }

    /// Reads it.
    pub fn from_stored(text: &str) -> Option<Self> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        Some(match (word, rest) {
            ("succeeded", "") => Self::Succeeded,
            ("succeeded", "in_progress") => Self::SucceededInProgress,
            ("skipped", reason) if !reason.is_empty() => Self::Skipped(reason.to_owned()),
            ("failed", rest) => {
                let (code, message) = rest.split_once(' ').unwrap_or((rest, ""));
                Self::failed(code, message)
            }
            ("closing", "") => Self::Closing { fresh: true },
            ("closing_again", "") => Self::Closing { fresh: false },
            _ => return None,
        })
    }
}

object! {
    /// Outcome of one row of a bulk action.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct BulkActionRowOutcome: Serialize {
        /// Id of the row.
        pub id: String,
        /// Code of the error, if the row failed.
        pub error_code: Option<String>,
        /// Message of the error, if the row failed.
        pub message: Option<String>,
        /// Why there was nothing to do.
        pub reason: Option<String>,
    }
}

/// The answer to a bulk action.
#[derive(Debug, Serialize)]
pub struct BulkResult {
    action: &'static str,
    total_matched: usize,
    /// Rows that are as asked.
    pub succeeded: Vec<BulkActionRowOutcome>,
    /// Rows that could not be done.
    pub failed: Vec<BulkActionRowOutcome>,
    /// Rows that were so already.
    pub skipped: Vec<BulkActionRowOutcome>,
    idempotency_key: String,
    /// Tenants whose close continues.
    #[serde(skip)]
    pub in_progress: Vec<String>,
}

impl BulkResult {
    /// Sorts the rows by their outcomes, in their order. One that is not settled counts as failed.
    pub fn of<'a>(bulk: &Bulk, outcome_of: impl Fn(&str) -> Option<&'a Outcome>) -> Self {
        let mut result = Self {
            action: bulk.action.as_str(),
            total_matched: bulk.rows.len(),
            succeeded: Vec::new(),
            failed: Vec::new(),
            skipped: Vec::new(),
            idempotency_key: bulk.idempotency_key.clone(),
            in_progress: Vec::new(),
        };
        for row in &bulk.rows {
            let mut listed = BulkActionRowOutcome {
                id: row.id.clone(),
                ..BulkActionRowOutcome::default()
            };
            match outcome_of(&row.id) {
                Some(Outcome::Succeeded) => result.succeeded.push(listed),
                Some(Outcome::SucceededInProgress) => {
                    result.in_progress.push(row.id.clone());
                    result.succeeded.push(listed);
                }
                Some(Outcome::Failed { code, message }) => {
                    listed.error_code = Some(code.clone());
                    listed.message = Some(message.clone());
                    result.failed.push(listed);
                }
                Some(Outcome::Skipped(reason)) => {
                    listed.reason = Some(reason.clone());
                    result.skipped.push(listed);
                }
                Some(Outcome::Closing { .. }) | None => {
                    listed.error_code = Some("INTERNAL_ERROR".to_owned());
                    listed.message = Some("The row was not done".to_owned());
                    result.failed.push(listed);
                }
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_outcomes_read_back() {
        for outcome in [
            Outcome::Succeeded,
            Outcome::SucceededInProgress,
            Outcome::failed("BUDGET_EXCEEDED", "Only 5 TOKENS remain"),
            Outcome::Skipped("ALREADY_IN_TARGET_STATE".to_owned()),
            Outcome::Closing { fresh: true },
            Outcome::Closing { fresh: false },
        ] {
            assert_eq!(Outcome::from_stored(&outcome.stored()), Some(outcome));
        }
        for text in ["", "skipped", "done", "succeeded x"] {
            assert_eq!(Outcome::from_stored(text), None, "{text}");
        }
    }
}
