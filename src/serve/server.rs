//! The HTTP/1 server below the routers: accepts keep-alive connections and closes them in phases.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tower::ServiceExt;
use tracing::{debug, warn};

use crate::api::context::Context;
use crate::config::ConnectionLimits;
use crate::serve::connections::{Bounds, Connections, Place};
use crate::serve::detach::{DetachOnDrop, Phase};
use crate::serve::timeouts::{Progress, TimedStream};
use crate::serve::unread::SharedBody;

/// How long an idle connection that was closed for another may take: its last response may be under way.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);
/// The longest head of a request, in bytes; above, the status is 431. Also what is read of a connection at once: it keeps as large a
/// buffer while it is idle, whatever it sent.
const HEAD_BYTES_MAX: usize = 32 * 1024;

/// All listeners of a process and their connections.
pub(super) struct Server {
    phase: watch::Sender<Phase>,
    bounds: Bounds,
}

impl Server {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            phase: watch::Sender::new(Phase::Running),
        }
    }

    /// Accepts connections and serves them from `router`, in a task of its own.
    pub(super) fn serve(&self, listener: TcpListener, router: Router) {
        let (phase, limits) = (self.phase.subscribe(), self.bounds.limits);
        let connections = Connections::new(self.bounds.clone());
        tokio::spawn(async move {
            let serve = |stream: TcpStream, peer, progress, place: Option<Place>| {
                let _ = stream.set_nodelay(true);
                let (router, phase) = (router.clone(), phase.clone());
                let place = Arc::new(place);
                let served = connection(stream, peer, router, limits, phase, progress, place);
                tokio::spawn(served);
            };
            let mut refusing = phase.clone();
            loop {
                let (stream, peer) = tokio::select! {
                    accepted = listener.accept() => match accepted {
                        Ok(accepted) => accepted,
                        Err(error) => {
                            recover(error).await;
                            continue;
                        }
                    },
                    () = reached(&mut refusing, Phase::Refusing) => break,
                };
                let progress = Arc::new(Progress::accepted());
                tokio::select! {
                    place = connections.admit(peer.ip(), &progress) => {
                        if place.is_some() {
                            serve(stream, peer, Arc::clone(&progress), place);
                        }
                    }
                    () = reached(&mut refusing, Phase::Refusing) => {
                        serve(stream, peer, Arc::clone(&progress), None);
                        break;
                    }
                }
            }
            // Closing the listener would reset connections that the kernel has accepted, with their requests.
            if let Ok(listener) = listener.into_std() {
                while let Ok((stream, peer)) = listener.accept() {
                    let stream = stream
                        .set_nonblocking(true)
                        .and_then(|()| TcpStream::from_std(stream));
                    if let Ok(stream) = stream {
                        serve(stream, peer, Arc::new(Progress::accepted()), None);
                    }
                }
            }
        });
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    /// Waits until all connections are closed and all requests done, at most `limit`; whether all were.
    pub(super) async fn all_closed(&self, limit: Duration) -> bool {
        // Each connection, listener and request holds a receiver.
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

/// Serves one connection. Its `place` is taken until the last of its requests is done, though the client hung up.
async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    limits: ConnectionLimits,
    mut phase: watch::Receiver<Phase>,
    progress: Arc<Progress>,
    place: Arc<Option<Place>>,
) {
    let stopping = phase.clone();
    let made_room = Arc::clone(&progress);
    let stream = TimedStream::new(stream, limits, Arc::clone(&progress));
    let service = service_fn(move |mut request: Request<Incoming>| {
        progress.begin();
        request.extensions_mut().insert(Context {
            peer: Some(peer),
            ..Context::default()
        });
        // A client that waits for `100 Continue` has sent no body, and reading would ask for it.
        let waits = request.headers().contains_key(header::EXPECT);
        let changes = request.method() != Method::GET;
        let (head, body) = request.into_parts();
        let body = SharedBody::new(body);
        let request = Request::from_parts(head, Body::new(body.clone()));
        let response = router.clone().oneshot(request);
        let (stopping, progress) = (stopping.clone(), Arc::clone(&progress));
        let (place, phase) = (Arc::clone(&place), stopping.clone());
        let answered = async move {
            let _place = place;
            let mut response: Response<Body> = response.await?;
            if !waits {
                body.read_if_unread().await;
            }
            let is_cut_off = !body.has_ended();
            if is_cut_off {
                progress.cut_off();
            }
            progress.respond();
            // The router adds `Allow` outside of every layer; only 405 may carry it.
            if response.status() != StatusCode::METHOD_NOT_ALLOWED {
                response.headers_mut().remove(header::ALLOW);
            }
            if is_cut_off || *stopping.borrow() != Phase::Running {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            Ok::<_, Infallible>(response)
        };
        DetachOnDrop::new(answered, changes, phase)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.idle)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut served = pin!(served);
    let limit = tokio::select! {
        outcome = served.as_mut() => return ended(peer, outcome),
        () = made_room.closing() => match made_room.begun() {
            // It may never finish the head of its first request.
            0 => return,
            _ => CLOSE_LIMIT,
        },
        () = reached(&mut phase, Phase::Draining) => Duration::MAX,
    };
    // A response may be under way.
    served.as_mut().graceful_shutdown();
    tokio::select! {
        outcome = served => ended(peer, outcome),
        () = tokio::time::sleep(limit) => {}
        () = reached(&mut phase, Phase::Aborted) => {}
    }
}

fn ended(peer: SocketAddr, outcome: Result<(), hyper::Error>) {
    if let Err(error) = outcome {
        debug!(peer = %peer, error = %error, "a connection ended early");
    }
}
