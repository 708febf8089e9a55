//! The HTTP/1 server below the routers: accepts keep-alive connections and closes them in phases.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use tower::ServiceExt;
use tracing::{debug, warn};

use crate::config::ConnectionLimits;
use crate::serve::timeouts::{Progress, TimedStream};
use crate::serve::unread::SharedBody;

/// How often to log that connections wait.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The phases of the shutdown.
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

/// All listeners of a process and their connections.
pub(super) struct Server {
    phase: watch::Sender<Phase>,
    limits: ConnectionLimits,
}

impl Server {
    pub(super) fn new(limits: ConnectionLimits) -> Self {
        Self {
            limits,
            phase: watch::Sender::new(Phase::Running),
        }
    }

    /// Accepts connections and serves them from `router`, in a task of its own.
    pub(super) fn serve(&self, listener: TcpListener, router: Router) {
        let (phase, limits) = (self.phase.subscribe(), self.limits);
        tokio::spawn(async move {
            let serve = |stream: TcpStream, peer, permit| {
                let _ = stream.set_nodelay(true);
                let served = connection(stream, peer, router.clone(), limits, phase.clone());
                tokio::spawn(async move {
                    served.await;
                    drop(permit);
                });
            };
            let mut refusing = phase.clone();
            let mut permits = Permits::new(limits.open_max);
            loop {
                let permit = tokio::select! {
                    permit = permits.take() => permit,
                    () = reached(&mut refusing, Phase::Refusing) => break,
                };
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = reached(&mut refusing, Phase::Refusing) => break,
                };
                match accepted {
                    Ok((stream, peer)) => serve(stream, peer, Some(permit)),
                    Err(error) => recover(error).await,
                }
            }
            // Closing the listener would reset connections that the kernel has accepted, with their requests.
            if let Ok(listener) = listener.into_std() {
                while let Ok((stream, peer)) = listener.accept() {
                    let stream = stream
                        .set_nonblocking(true)
                        .and_then(|()| TcpStream::from_std(stream));
                    if let Ok(stream) = stream {
                        serve(stream, peer, None);
                    }
                }
            }
        });
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    /// Waits until all connections are closed, at most `limit`; whether all were.
    pub(super) async fn all_closed(&self, limit: Duration) -> bool {
        // Each connection and listener holds a receiver.
        let closed = tokio::time::timeout(limit, self.phase.closed()).await;
        closed.is_ok()
    }

    /// Waits until all connections are closed, at most `grace`, then drops the others; whether all were.
    pub(super) async fn finished(self, grace: Duration) -> bool {
        let closed = self.all_closed(grace).await;
        self.enter(Phase::Aborted);
        closed
    }
}

/// Limits the open connections of an address.
struct Permits {
    free: Arc<Semaphore>,
    warned: Option<Instant>,
}

impl Permits {
    fn new(open_max: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(open_max.min(Semaphore::MAX_PERMITS))),
            warned: None,
        }
    }

    async fn take(&mut self) -> OwnedSemaphorePermit {
        let long_ago = |at: Instant| at.elapsed() >= WARN_EVERY;
        if self.free.available_permits() == 0 && self.warned.is_none_or(long_ago) {
            self.warned = Some(Instant::now());
            warn!("the limit of open connections is reached; new ones wait until one is closed");
        }
        let permit = Arc::clone(&self.free).acquire_owned().await;
        permit.expect("the semaphore is never closed")
    }
}

async fn reached(phase: &mut watch::Receiver<Phase>, target: Phase) {
    // The sender is dropped only after the last connection, so this cannot fail earlier.
    let _ = phase.wait_for(|phase| *phase >= target).await;
}

/// Ignores a client that is already gone; otherwise waits, because file descriptors may run out.
async fn recover(error: io::Error) {
    use io::ErrorKind as Kind;
    if !matches!(
        error.kind(),
        Kind::ConnectionRefused | Kind::ConnectionAborted | Kind::ConnectionReset
    ) {
        warn!(error = %error, "cannot accept a connection; retrying in 100 ms");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    limits: ConnectionLimits,
    mut phase: watch::Receiver<Phase>,
) {
    let stopping = phase.clone();
    let progress = Arc::new(Progress::default());
    let stream = TimedStream::new(stream, limits, Arc::clone(&progress));
    let service = service_fn(move |mut request: Request<Incoming>| {
        progress.begin();
        request.extensions_mut().insert(ConnectInfo(peer));
        // A client that waits for `100 Continue` has sent no body, and reading would ask for it.
        let waits = request.headers().contains_key(header::EXPECT);
        let (head, body) = request.into_parts();
        let body = SharedBody::new(body);
        let request = Request::from_parts(head, Body::new(body.clone()));
        let response = router.clone().oneshot(request);
        let (stopping, progress) = (stopping.clone(), Arc::clone(&progress));
        async move {
            let mut response: Response<Body> = response.await?;
            if !waits {
                body.read_if_unread().await;
            }
            progress.respond();
            // The router adds `Allow` outside of every layer; only 405 may carry it.
            if response.status() != StatusCode::METHOD_NOT_ALLOWED {
                response.headers_mut().remove(header::ALLOW);
            }
            if *stopping.borrow() != Phase::Running {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            Ok::<_, Infallible>(response)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle)
        .serve_connection(TokioIo::new(stream), service);
    let mut served = pin!(served);
    let outcome = tokio::select! {
        outcome = served.as_mut() => outcome,
        () = reached(&mut phase, Phase::Draining) => {
            served.as_mut().graceful_shutdown();
            tokio::select! {
                outcome = served => outcome,
                () = reached(&mut phase, Phase::Aborted) => return,
            }
        }
    };
    if let Err(error) = outcome {
        debug!(peer = %peer, error = %error, "a connection ended early");
    }
}
