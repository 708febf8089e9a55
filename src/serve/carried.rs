//! Carries out requests whose clients hung up: Redis may have them already, and what they cause there must be counted.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;
use tokio::sync::watch;

use super::phase::Phase;

/// A request that goes on in a task of its own when it is dropped before its end, as hyper drops it when the client hangs up.
pub(super) struct Carried<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    /// Until it is done.
    request: Option<Pin<Box<F>>>,
    changes: bool,
    phase: watch::Receiver<Phase>,
}

impl<F> Carried<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    /// `changes`: one that only reads need not go on, since nobody gets what it finds. `phase`: of the server; once connections
    /// are dropped with their requests, none goes on.
    pub(super) fn new(request: F, changes: bool, phase: watch::Receiver<Phase>) -> Self {
        Self {
            request: Some(Box::pin(request)),
            changes,
            phase,
        }
    }
}

impl<F> Future for Carried<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
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

impl<F> Drop for Carried<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    fn drop(&mut self) {
        let request = self.request.take();
        // A panic of a handler is a response already; one below it must not go on.
        let goes_on = self.changes && !std::thread::panicking();
        if !goes_on || *self.phase.borrow() == Phase::Aborted {
            return;
        }
        if let (Some(request), Ok(runtime)) = (request, Handle::try_current()) {
            runtime.spawn(request);
        }
    }
}
