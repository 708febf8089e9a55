//! One keep-alive connection with one request in flight, driven by whoever waits for the answer: no task of its own, no
//! channel between tasks, so that the generator takes little of the machine that it measures.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes};
use hyper::client::conn::http1;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::target::Target;

/// A request without an answer by then is given up, and its connection closed.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

type Driver = http1::Connection<TokioIo<TcpStream>, Full<Bytes>>;

/// Opens a connection when there is none.
pub(super) struct Connection {
    target: Arc<Target>,
    open: Option<Open>,
}

struct Open {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: Driver,
}

/// An answer, read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reply {
    pub status: StatusCode,
    pub body: Bytes,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    /// The request was not sent.
    #[error("cannot connect")]
    NotConnected(#[source] io::Error),
    /// The request may have been served.
    #[error("the connection broke")]
    Broken,
    /// The request may have been served, or be served yet.
    #[error("no answer within {ANSWER_LIMIT:?}")]
    Late,
}

impl Connection {
    pub fn new(target: Arc<Target>) -> Self {
        Self { target, open: None }
    }

    /// Sends a request and reads the answer.
    ///
    /// # Errors
    /// [`Lost`]; the next request opens a new connection.
    pub async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Reply, Lost> {
        let mut open = match self.open.take() {
            Some(open) if !open.sender.is_closed() => open,
            _ => connect(&self.target).await.map_err(Lost::NotConnected)?,
        };
        let answered = timeout(ANSWER_LIMIT, open.exchange(request)).await;
        let reply = answered.map_err(|_| Lost::Late)?.ok_or(Lost::Broken)?;
        self.open = Some(open);
        Ok(reply)
    }
}

async fn connect(target: &Target) -> io::Result<Open> {
    let connecting = TcpStream::connect((target.host.as_str(), target.port));
    let stream = timeout(ANSWER_LIMIT, connecting)
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    stream.set_nodelay(true)?;
    let (sender, driver) = http1::Builder::new()
        // Requests are small: one copy costs less than a gathering write.
        .writev(false)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    Ok(Open { sender, driver })
}

impl Open {
    /// `None` when the connection ended before the answer did.
    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Option<Reply> {
        let Self { sender, driver } = self;
        driven(driver, sender.ready()).await?.ok()?;
        let sent = driven(driver, sender.send_request(request)).await?;
        let (head, mut body) = sent.ok()?.into_parts();
        let mut whole = Bytes::new();
        while !body.is_end_stream() {
            let Some(frame) = driven(driver, body.frame()).await? else {
                break;
            };
            let Ok(data) = frame.ok()?.into_data() else {
                continue;
            };
            // Nearly always one frame; else it is copied together.
            whole = match whole.is_empty() {
                true => data,
                false => [&whole[..], &data[..]].concat().into(),
            };
        }
        Some(Reply {
            status: head.status,
            body: whole,
        })
    }
}

/// Waits for `work` while it moves the connection on that `work` needs. `None` when the connection ended first.
async fn driven<W: Future>(driver: &mut Driver, work: W) -> Option<W::Output> {
    let mut work = pin!(work);
    poll_fn(|context| {
        if let Poll::Ready(output) = work.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        let ended = Pin::new(&mut *driver).poll(context).is_ready();
        match work.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if ended => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
