//! The phases of the shutdown, and requests whose clients hung up: they are finished, because Redis may have them already, and their
//! outcome there must be counted.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::sync::watch;

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

/// A request that moves to a task of its own when it is dropped early, as hyper drops it when the client hangs up.
pub(super) struct DetachOnDrop<T: Send + 'static> {
    /// `None` once it is done.
    request: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    changes: bool,
    phase: watch::Receiver<Phase>,
}

impl<T: Send + 'static> DetachOnDrop<T> {
    /// Without `changes` the request only reads, and ends with its client. `phase`: of the server; when it aborts connections,
    /// their requests end too.
    pub(super) fn new(
        request: impl Future<Output = T> + Send + 'static,
        changes: bool,
        phase: watch::Receiver<Phase>,
    ) -> Self {
        Self {
            request: Some(Box::pin(request)),
            changes,
            phase,
        }
    }
}

impl<T: Send + 'static> Future for DetachOnDrop<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(request) = &mut self.request else {
            return Poll::Pending;
        };
        let outcome = request.as_mut().poll(cx);
        if outcome.is_ready() {
            self.request = None;
        }
        outcome
    }
}

impl<T: Send + 'static> Drop for DetachOnDrop<T> {
    fn drop(&mut self) {
        let request = self.request.take();
        // A panic of a handler is a response by now. After one below it, the request must not run again.
        let detaches = self.changes && !std::thread::panicking();
        if !detaches || *self.phase.borrow() == Phase::Aborted {
            return;
        }
        if let (Some(request), Ok(runtime)) = (request, Handle::try_current()) {
            runtime.spawn(request);
        }
    }
}
