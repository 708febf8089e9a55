//! Refusals of lists.

/// More rows than may be sorted: the order that a list should have is not that of an index.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("more than {bound} {rows} match or must be looked at, too many to sort; {advice}")]
pub struct TooManyToSort {
    /// What the rows are, in the plural.
    pub rows: &'static str,
    /// How many can be sorted, or looked at for that.
    pub bound: usize,
    /// How to ask instead.
    pub advice: &'static str,
    /// Whether the list is of the runtime plane, which has another error code for it.
    pub is_of_runtime_plane: bool,
}
