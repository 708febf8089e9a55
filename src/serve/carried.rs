//! Carries out requests whose clients hung up. Redis does what it was sent in any case: so what it caused is counted, and what
//! bounds how much goes on at once still bounds it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

/// A request that goes on in a task of its own when it is dropped before its end, as hyper does when the client hangs up.
pub(super) struct Carried<F>(Option<Pin<Box<F>>>)
where
    F: Future<Output: Send> + Send + 'static;

impl<F> Carried<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    pub(super) fn new(request: F) -> Self {
        Self(Some(Box::pin(request)))
    }
}

impl<F> Future for Carried<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Some(request) = &mut self.0 else {
            return Poll::Pending;
        };
        let outcome = request.as_mut().poll(cx);
        if outcome.is_ready() {
            self.0 = None;
        }
        outcome
    }
}

impl<F> Drop for Carried<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    fn drop(&mut self) {
        // A panic of the handler is a response already; one below it must not go on.
        let request = self.0.take().filter(|_| !std::thread::panicking());
        // While the runtime ends, nothing can be carried out any more.
        if let (Some(request), Ok(runtime)) = (request, Handle::try_current()) {
            runtime.spawn(request);
        }
    }
}
