//! One connection to a receiver: one request at a time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use super::failure::PostError;
use super::stream::{Heard, Stream, Wire};

/// How much of a response's body is read, and discarded.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// How long a response's body is read.
const BODY_LIMIT: Duration = Duration::from_secs(1);

/// The head of a response, in bytes; also how much is buffered.
const HEAD_BYTES_MAX: usize = 32 * 1024;

/// An open connection. Dropping it closes it.
pub(super) struct Connection {
    /// The address that it goes to.
    pub address: SocketAddr,
    sender: SendRequest<Full<Bytes>>,
    heard: Heard,
    driver: AbortHandle,
    /// Counted while the connection exists.
    _ticket: Ticket,
}

/// Counts the connections that are open at a time: the number of copies is the number of connections.
pub(super) type Ticket = Arc<()>;

/// A response whose head has arrived.
pub(super) struct Received {
    pub status: u16,
    body: Incoming,
    connection: Connection,
}

/// Why no head arrived.
pub(super) struct Broken {
    pub error: PostError,
    /// Whether the receiver sent nothing at all, so that it may never have seen the request.
    pub unheard: bool,
}

impl Broken {
    /// Broken for good.
    pub fn of(error: PostError) -> Self {
        Self {
            error,
            unheard: false,
        }
    }
}

impl Connection {
    /// Speaks HTTP/1.1 over a stream. A task moves the bytes; it ends with the connection.
    pub async fn over(wire: Wire, address: SocketAddr, ticket: Ticket) -> Result<Self, PostError> {
        let heard = Heard::default();
        let stream = TokioIo::new(Stream::new(wire, heard.clone()));
        let opened = http1::Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .max_header_size(HEAD_BYTES_MAX)
            .handshake(stream)
            .await;
        let (sender, connection) = opened.map_err(|_| PostError::NoResponse)?;
        let driver = tokio::spawn(async move {
            // The exchange reports what went wrong.
            let _ = connection.await;
        });
        Ok(Self {
            address,
            sender,
            heard,
            driver: driver.abort_handle(),
            _ticket: ticket,
        })
    }

    /// Whether the receiver has left it open, as far as is known.
    pub fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Sends a request and waits for the head of its response. Interim responses are skipped.
    pub async fn send(mut self, request: Request<Full<Bytes>>) -> Result<Received, Broken> {
        self.heard.reset();
        match self.sender.send_request(request).await {
            Ok(response) => Ok(Received::new(response, self)),
            Err(error) => Err(Broken {
                error: match error.is_parse() {
                    true => PostError::Malformed,
                    false => PostError::NoResponse,
                },
                unheard: !self.heard.anything(),
            }),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Received {
    fn new(response: Response<Incoming>, connection: Connection) -> Self {
        Self {
            status: response.status().as_u16(),
            body: response.into_body(),
            connection,
        }
    }

    /// Reads the body and discards it. Returns the connection if it can be used again: the body ended within its limits and
    /// neither side closes.
    pub async fn drain(mut self, deadline: Instant) -> Option<Connection> {
        let ended = async {
            let mut read = 0;
            while let Some(frame) = self.body.frame().await {
                read += frame.ok()?.data_ref().map_or(0, Bytes::len);
                if read > BODY_BYTES_MAX {
                    return None;
                }
            }
            self.connection.sender.ready().await.ok()
        };
        let deadline = deadline.min(Instant::now() + BODY_LIMIT);
        let ended = timeout_at(deadline, ended).await.ok().flatten();
        ended.map(|()| self.connection)
    }
}
