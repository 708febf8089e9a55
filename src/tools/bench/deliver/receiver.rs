//! Receivers on this machine that note what arrives. The path says how one behaves, and which subscription it is of.

use std::collections::HashSet;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use jiff::Timestamp;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// How long a slow receiver takes.
const SLOW: Duration = Duration::from_millis(50);

/// How a receiver behaves; the first segment of its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Responds at once.
    Fast,
    /// The same, by a host name.
    Named,
    /// Responds after [`SLOW`].
    Slow,
    /// Reads the request, and never responds.
    Dead,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Fast, Self::Named, Self::Slow, Self::Dead];

    fn segment(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Named => "named",
            Self::Slow => "slow",
            Self::Dead => "dead",
        }
    }
}

/// An event that arrived for the first time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    /// The subscription.
    pub number: usize,
    pub at: Instant,
    /// From the event to its arrival.
    pub waited: Duration,
}

/// What has arrived since it was last taken.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    pub first: Vec<Arrival>,
    /// Requests for an event that had arrived before.
    pub repeated: u64,
    seen: HashSet<(usize, String)>,
}

/// The receivers. They run until the process ends.
#[derive(Debug, Clone)]
pub(super) struct Receivers {
    address: SocketAddr,
    arrivals: Arc<Mutex<Arrivals>>,
}

impl Receivers {
    /// Listens on a thread of its own.
    pub fn start() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let receivers = Self {
            address: listener.local_addr()?,
            arrivals: Arc::default(),
        };
        let arrivals = Arc::clone(&receivers.arrivals);
        thread::Builder::new()
            .name("receivers".to_owned())
            .spawn(move || runtime.block_on(accept(listener, arrivals)))?;
        Ok(receivers)
    }

    /// The URL of the receiver of a subscription.
    pub fn url(&self, kind: Kind, number: usize) -> String {
        let address = self.address;
        let host = match kind {
            Kind::Named => format!("localhost:{}", address.port()),
            Kind::Fast | Kind::Slow | Kind::Dead => address.to_string(),
        };
        format!("http://{host}/{}/{number}", kind.segment())
    }

    /// How many events have arrived.
    pub fn count(&self) -> usize {
        lock(&self.arrivals).first.len()
    }

    /// Takes what has arrived.
    pub fn take(&self) -> Arrivals {
        std::mem::take(&mut lock(&self.arrivals))
    }
}

fn lock(arrivals: &Mutex<Arrivals>) -> MutexGuard<'_, Arrivals> {
    arrivals.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn accept(listener: std::net::TcpListener, arrivals: Arc<Mutex<Arrivals>>) {
    let listener = TcpListener::from_std(listener).expect("it does not block");
    loop {
        // Without a descriptor, a connection waits until there is one.
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve(stream, Arc::clone(&arrivals)))),
            Err(_) => sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn serve(stream: TcpStream, arrivals: Arc<Mutex<Arrivals>>) {
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request| respond(request, &arrivals));
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(None);
    // The dispatcher closes connections as it likes.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(
    request: Request<Incoming>,
    arrivals: &Mutex<Arrivals>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let (kind, number) = path
        .trim_start_matches('/')
        .split_once('/')
        .unwrap_or_default();
    let kind = Kind::ALL.into_iter().find(|known| known.segment() == kind);
    let body = request.into_body().collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    if let (Ok(number), Some((event, waited))) = (number.parse(), event(&body)) {
        let mut arrivals = lock(arrivals);
        if arrivals.seen.insert((number, event)) {
            let at = Instant::now();
            arrivals.first.push(Arrival { number, at, waited });
        } else {
            arrivals.repeated += 1;
        }
    }
    match kind {
        Some(Kind::Dead) => std::future::pending().await,
        Some(Kind::Slow) => sleep(SLOW).await,
        Some(Kind::Fast | Kind::Named) | None => {}
    }
    let mut response = Response::new(Empty::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

/// Id of the event, and how long ago it happened.
fn event(body: &[u8]) -> Option<(String, Duration)> {
    #[derive(serde::Deserialize)]
    struct Event {
        event_id: String,
        timestamp: String,
    }
    let event: Event = serde_json::from_slice(body).ok()?;
    let happened: Timestamp = event.timestamp.parse().ok()?;
    let waited = Timestamp::now().duration_since(happened);
    Some((event.event_id, waited.try_into().unwrap_or_default()))
}
