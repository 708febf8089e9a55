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
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::target::Target;

/// A request without an answer by then is given up, and its connection closed.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

type Driver = http1::Connection<TokioIo<TcpStream>, Full<Bytes>>;

/// Opens a connection when there is none.
pub(super) struct Connection {
    target: Arc<Target>,
    /// Boxed, because it is large and taken out for every request.
    open: Option<Box<Open>>,
}

struct Open {
    sender: http1::SendRequest<Full<Bytes>>,
    line: Line,
}

/// What moves a request on, and ends it.
struct Line {
    driver: Driver,
    /// Goes off when an answer is late. Kept from request to request: to move a timer costs less than to make one.
    alarm: Pin<Box<Sleep>>,
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
        let reply = open.exchange(request).await?;
        self.open = Some(open);
        Ok(reply)
    }
}

async fn connect(target: &Target) -> io::Result<Box<Open>> {
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
    let alarm = Box::pin(sleep(ANSWER_LIMIT));
    let line = Line { driver, alarm };
    Ok(Box::new(Open { sender, line }))
}

impl Open {
    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<Reply, Lost> {
        let Self { sender, line } = self;
        line.alarm.as_mut().reset(Instant::now() + ANSWER_LIMIT);
        line.carry(sender.ready()).await?.map_err(broken)?;
        let sent = line.carry(sender.send_request(request)).await?;
        let (head, mut body) = sent.map_err(broken)?.into_parts();
        let mut whole = Bytes::new();
        while !body.is_end_stream() {
            let Some(frame) = line.carry(body.frame()).await? else {
                break;
            };
            let Ok(data) = frame.map_err(broken)?.into_data() else {
                continue;
            };
            // Nearly always one frame; else it is copied together.
            whole = match whole.is_empty() {
                true => data,
                false => [&whole[..], &data[..]].concat().into(),
            };
        }
        Ok(Reply {
            status: head.status,
            body: whole,
        })
    }
}

fn broken(_: hyper::Error) -> Lost {
    Lost::Broken
}

impl Line {
    /// Waits for `work` while it moves the connection on that `work` needs.
    async fn carry<W: Future>(&mut self, work: W) -> Result<W::Output, Lost> {
        let mut work = pin!(work);
        poll_fn(|context| {
            if let Poll::Ready(output) = work.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            let ended = Pin::new(&mut self.driver).poll(context).is_ready();
            match work.as_mut().poll(context) {
                Poll::Ready(output) => Poll::Ready(Ok(output)),
                Poll::Pending if ended => Poll::Ready(Err(Lost::Broken)),
                Poll::Pending => self.alarm.as_mut().poll(context).map(|()| Err(Lost::Late)),
            }
        })
        .await
    }
}
