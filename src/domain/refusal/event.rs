//! Refusals of operations on events.

use crate::domain::printable::printable;

/// Why an event is not shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventRefusal {
    /// There is no event of this id. What was sent may be no id.
    #[error("There is no event {}", printable(.0))]
    NotFound(String),
}
