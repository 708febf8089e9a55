//! Refusals of bulk actions.

use crate::domain::bulk::ROWS_MAX;

/// Why a bulk action does nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BulkRefusal {
    /// More rows match than a bulk action may have: so many.
    #[error(
        "Invalid filter: {0} rows match, and a bulk action has at most {most}; narrow the filter",
        most = ROWS_MAX
    )]
    TooManyMatched(usize),
    /// Another number of rows matches than was expected: so many.
    #[error("{0} rows match, another number than expected_count; nothing was changed")]
    CountMismatch(usize),
    /// The bulk action under this idempotency key is still in progress.
    #[error("the bulk action is still on its way")]
    InProgress,
}
