//! A layer made of an async function, as `axum::middleware::from_fn` makes one. That one copies all layers below it for each request,
//! each in an allocation of its own; here they are shared. A function that calls another one is one layer with it.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::response::Response;
use axum::routing::Route;
use tower::{Layer, Service};

/// What the function of a layer returns: a response in any case.
pub type Served = Result<Response, Infallible>;

/// The layer of a function, which gets the state, the request, and what is below.
#[derive(Clone)]
pub struct Around<S, F>(pub S, pub F);

impl<S: Clone, F: Fn(S, Request, Next) -> Fut, Fut: Future<Output = Served>> Around<S, F> {
    /// Passes a request through the layer, to what is below.
    pub fn call(&self, request: Request, next: Next) -> Fut {
        let Self(state, function) = self;
        function(state.clone(), request, next)
    }
}

/// A route with such a layer around it.
#[derive(Clone)]
pub struct Surrounded<S, F> {
    around: Around<S, F>,
    inner: Arc<Route>,
}

/// The layers below, and the handler.
pub struct Next(Arc<Route>);

impl Next {
    /// Passes the request on.
    pub async fn run(self, request: Request) -> Response {
        let Ok(response) = Route::clone(&self.0).call(request).await;
        response
    }
}

/// The function of a layer that does nothing.
pub async fn pass((): (), request: Request, next: Next) -> Served {
    Ok(next.run(request).await)
}

impl<S: Clone, F: Clone> Layer<Route> for Around<S, F> {
    type Service = Surrounded<S, F>;

    fn layer(&self, route: Route) -> Surrounded<S, F> {
        Surrounded {
            around: self.clone(),
            inner: Arc::new(route),
        }
    }
}

impl<S, F, Fut> Service<Request> for Surrounded<S, F>
where
    S: Clone,
    F: Fn(S, Request, Next) -> Fut,
    Fut: Future<Output = Served>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Fut;

    /// Routes are always ready.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Fut {
        self.around.call(request, Next(Arc::clone(&self.inner)))
    }
}
