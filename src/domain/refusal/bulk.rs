//! Refusals of bulk actions.

/// Why a bulk action does nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BulkRefusal {
    /// More rows match than a bulk action may have: so many.
    TooManyMatched(usize),
    /// Another number of rows matches than was expected: so many.
    CountMismatch(usize),
    /// The bulk action under this idempotency key is still in progress.
    InProgress,
}
