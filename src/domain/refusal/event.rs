//! Refusals of operations on events.

/// Why an event is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventRefusal {
    /// There is no event of this id. What was sent may be no id.
    NotFound(String),
}
