//! Receivers on this machine that record what arrives. The path has the milliseconds after which one responds, and the number of
//! its subscription.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::time::sleep;

/// The host of a receiver's URL, and the milliseconds after which it responds.
pub(super) type Kind = (&'static str, u64);

pub(super) const FAST: Kind = ("127.0.0.1", 0);
pub(super) const NAMED: Kind = ("localhost", 0);
pub(super) const SLOW: Kind = ("127.0.0.1", 50);
/// Does not respond before the benchmark ends.
pub(super) const DEAD: Kind = ("127.0.0.1", 3_600_000);

/// An event that arrived for the first time.
pub(super) struct Arrival {
    /// The subscription.
    pub number: usize,
    pub at: Instant,
    /// From the event to its arrival.
    pub waited: Duration,
}

/// The requests that arrived since the last call.
#[derive(Default)]
pub(super) struct Arrivals {
    pub first: Vec<Arrival>,
    /// Requests for an event that had arrived before.
    pub repeated: usize,
    seen: HashSet<(usize, String)>,
}

/// The receivers. They run until the process ends.
#[derive(Clone)]
pub(super) struct Receivers {
    port: u16,
    arrivals: Arc<Mutex<Arrivals>>,
}

impl Receivers {
    /// Listens on a thread of its own.
    pub fn start() -> io::Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let receivers = Self {
            port: listener.local_addr()?.port(),
            arrivals: Arc::default(),
        };
        let router = Router::new()
            .route("/{delay_ms}/{number}", post(receive))
            .with_state(receivers.clone());
        let serve = async move { axum::serve(TcpListener::from_std(listener)?, router).await };
        let runtime = Builder::new_current_thread().enable_all().build()?;
        thread::spawn(move || runtime.block_on(serve));
        Ok(receivers)
    }

    pub fn url(&self, (host, delay_ms): Kind, number: usize) -> String {
        format!("http://{host}:{}/{delay_ms}/{number}", self.port)
    }

    /// Waits for this many events, a minute at most, and takes the arrived ones.
    pub async fn wait_for(&self, events: usize) -> Arrivals {
        let until = Instant::now() + Duration::from_secs(60);
        while self.arrivals.lock().first.len() < events && Instant::now() < until {
            sleep(Duration::from_millis(20)).await;
        }
        std::mem::take(&mut self.arrivals.lock())
    }
}

#[derive(Deserialize)]
struct Event {
    event_id: String,
    timestamp: String,
}

async fn receive(
    State(receivers): State<Receivers>,
    Path((delay_ms, number)): Path<(u64, usize)>,
    body: Bytes,
) -> StatusCode {
    let Ok(event) = serde_json::from_slice::<Event>(&body) else {
        return StatusCode::BAD_REQUEST;
    };
    let happened: Timestamp = event.timestamp.parse().unwrap_or_default();
    let waited = Timestamp::now().duration_since(happened);
    let waited = waited.try_into().unwrap_or_default();
    {
        let mut arrivals = receivers.arrivals.lock();
        if arrivals.seen.insert((number, event.event_id)) {
            let at = Instant::now();
            arrivals.first.push(Arrival { number, at, waited });
        } else {
            arrivals.repeated += 1;
        }
    }
    if delay_ms > 0 {
        sleep(Duration::from_millis(delay_ms)).await;
    }
    StatusCode::NO_CONTENT
}
