//! The phases of the shutdown.

/// A phase of the shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Serving.
    Running,
    /// Serving, with `Connection: close` in each response.
    Stopping,
    /// The same, without new connections.
    Refusing,
    /// Closing idle connections; requests in flight finish.
    Draining,
    /// Dropping all connections.
    Aborted,
}
