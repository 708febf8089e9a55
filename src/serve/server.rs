//! The HTTP/1 server below the routers: many keep-alive connections, an orderly end.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderValue, Request, Response, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tower::ServiceExt;
use tracing::{debug, warn};

/// A connection may be idle, or take for the head of a request, this long: longer than the idle connections of usual
/// load balancers, so that they close first and never send into a connection that we are closing.
const HEAD_LIMIT: Duration = Duration::from_secs(120);

/// How far the end has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    /// Serving.
    Running,
    /// Serving, but asking each client to close its connection.
    Stopping,
    /// The same, without new connections: a balancer that finds none looks elsewhere and leaves its idle ones alone.
    Refusing,
    /// Idle connections are closed, requests in flight are finished.
    Draining,
    /// What is left is dropped.
    Aborted,
}

/// All listeners of a process and their connections.
pub(super) struct Server {
    phase: watch::Sender<Phase>,
}

impl Server {
    pub(super) fn new() -> Self {
        Self {
            phase: watch::Sender::new(Phase::Running),
        }
    }

    /// Accepts connections and serves them from `router`, in a task of its own.
    pub(super) fn serve(&self, listener: TcpListener, router: Router) {
        let phase = self.phase.subscribe();
        tokio::spawn(async move {
            let serve = |stream: TcpStream, peer| {
                let _ = stream.set_nodelay(true);
                tokio::spawn(connection(stream, peer, router.clone(), phase.clone()));
            };
            let mut refusing = phase.clone();
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    () = reached(&mut refusing, Phase::Refusing) => break,
                };
                match accepted {
                    Ok((stream, peer)) => serve(stream, peer),
                    Err(error) => recover(error).await,
                }
            }
            // The kernel has accepted some already; closing the listener would reset them, requests included.
            if let Ok(listener) = listener.into_std() {
                while let Ok((stream, peer)) = listener.accept() {
                    let stream = stream
                        .set_nonblocking(true)
                        .and_then(|()| TcpStream::from_std(stream));
                    if let Ok(stream) = stream {
                        serve(stream, peer);
                    }
                }
            }
        });
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.phase.send_replace(phase);
    }

    /// Waits until all connections are closed, at most `patience`; whether all were.
    pub(super) async fn all_closed(&self, patience: Duration) -> bool {
        // Each connection and listener holds a receiver.
        let closed = tokio::time::timeout(patience, self.phase.closed()).await;
        closed.is_ok()
    }

    /// The same, then drops what is left.
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

/// A client that is gone already is nothing; out of files, wait for some to be closed.
async fn recover(error: io::Error) {
    use io::ErrorKind as Kind;
    if !matches!(
        error.kind(),
        Kind::ConnectionRefused | Kind::ConnectionAborted | Kind::ConnectionReset
    ) {
        warn!(error = %error, "cannot accept a connection; trying again in 100 ms");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    mut phase: watch::Receiver<Phase>,
) {
    let stopping = phase.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        let answer = router.clone().oneshot(request.map(Body::new));
        let stopping = stopping.clone();
        async move {
            let mut response: Response<Body> = answer.await?;
            if *stopping.borrow() != Phase::Running {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            Ok::<_, Infallible>(response)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
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
