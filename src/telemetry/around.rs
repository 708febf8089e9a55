//! A layer made of an async function, as `axum::middleware::from_fn` makes one. That one copies all layers below it for each request,
//! each in an allocation of its own; here they are shared.

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
        let Around(state, function) = &self.around;
        function(state.clone(), request, Next(Arc::clone(&self.inner)))
    }
}
