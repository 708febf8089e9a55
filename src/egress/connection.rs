//! One connection to a receiver: one request at a time, driven by the task that sends it.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{CONTENT_LENGTH, HeaderName, TRANSFER_ENCODING};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, timeout_at};

/// How much of a response's body is read, and discarded.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// How long a response's body is read.
const BODY_LIMIT: Duration = Duration::from_secs(1);

/// The head of a response, in bytes.
const HEAD_BYTES_MAX: usize = 32 * 1024;

/// All that is read of one response: its interim heads have no end otherwise.
const RESPONSE_BYTES_MAX: usize = HEAD_BYTES_MAX + BODY_BYTES_MAX;

/// An open connection. Dropping it closes it.
pub(super) struct Connection {
    /// The remote address.
    pub address: SocketAddr,
    stream: Box<dyn ByteStream>,
    /// Bytes received since the last request began.
    received: usize,
    /// Counted while the connection exists.
    _ticket: Ticket,
}

/// A connected stream, with or without TLS.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// Counts the connections that are open at a time: the number of copies is the number of connections.
pub(super) type Ticket = Arc<()>;

/// A request, on the heap: every future that passes it on would keep room for it otherwise.
pub(super) type PostRequest = Box<Request<Full<Bytes>>>;

/// A response whose head has arrived, with its connection.
pub(super) struct ResponseHead {
    response: Response<Incoming>,
    driver: Driver,
}

/// Why there was no response. `Display` is safe to show to tenants: it is the same for all failures to connect, which would
/// otherwise distinguish hosts and ports of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages are the documentation")]
pub enum PostError {
    #[error("Request timed out")]
    Timeout,
    #[error("Connection failed")]
    Unreachable,
    #[error("TLS/SSL handshake failed")]
    Tls,
    #[error("The connection ended without a response")]
    NoResponse,
    #[error("The response is not valid HTTP")]
    Malformed,
}

/// Why no head arrived.
pub(super) struct SendError {
    pub error: PostError,
    /// Whether the receiver may never have seen the request: it closed the connection and sent nothing at all.
    pub no_bytes_received: bool,
}

impl From<PostError> for SendError {
    fn from(error: PostError) -> Self {
        Self {
            error,
            no_bytes_received: false,
        }
    }
}

impl Connection {
    pub fn new(stream: Box<dyn ByteStream>, address: SocketAddr, ticket: Ticket) -> Self {
        Self {
            address,
            stream,
            received: 0,
            _ticket: ticket,
        }
    }

    /// Whether an idle connection can be used: the receiver has neither closed it nor sent anything, as far as is known.
    pub fn is_silent(&mut self) -> bool {
        let mut byte = [0];
        let mut context = Context::from_waker(Waker::noop());
        let mut buffer = ReadBuf::new(&mut byte);
        let read = Pin::new(&mut self.stream).poll_read(&mut context, &mut buffer);
        read.is_pending()
    }

    /// Sends a request and waits for the head of its response. Interim responses are skipped.
    pub async fn send(mut self, request: PostRequest) -> Result<ResponseHead, SendError> {
        self.received = 0;
        // On the heap as well, so that a request that waits for its response takes little.
        let mut driver = Box::pin(Driver::new(self)).await?;
        let response = Box::pin(driver.sender.send_request(*request));
        match driver.drive(response).await {
            Some(Ok(response)) => Ok(ResponseHead { response, driver }),
            failed => Err(driver.send_error(failed.and_then(Result::err))),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        this.received += buffer.filled().len() - before;
        match this.received > RESPONSE_BYTES_MAX {
            true => Poll::Ready(Err(io::ErrorKind::FileTooLarge.into())),
            false => read,
        }
    }
}

/// A receiver may respond before it has read all, and close. So a failed write does not end the exchange: what the receiver sent
/// is still read, up to the end of the connection.
impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        written.map(|written| written.or(Ok(bytes.len())))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx).map(|_| Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl ResponseHead {
    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// A header, if it is text.
    pub fn header(&self, name: HeaderName) -> Option<&str> {
        self.response.headers().get(name)?.to_str().ok()
    }

    /// Reads the body and discards it. Returns the connection if it can be used again: the body ended within its limits and
    /// neither side closes.
    pub async fn drain(mut self, deadline: Instant) -> Option<Connection> {
        let deadline = deadline.min(Instant::now() + BODY_LIMIT);
        let headers = self.response.headers();
        // Two statements of where the body ends: the receiver may believe the other one.
        let is_ambiguous =
            headers.contains_key(CONTENT_LENGTH) && headers.contains_key(TRANSFER_ENCODING);
        let mut body = Limited::new(self.response.into_body(), BODY_BYTES_MAX);
        let read_to_end = async {
            while let Some(frame) = body.frame().await {
                frame.ok()?;
            }
            Some(())
        };
        timeout_at(deadline, self.driver.drive(read_to_end))
            .await
            .ok()???;
        self.driver.into_idle().filter(|_| !is_ambiguous)
    }
}

/// hyper's state of one exchange. It has no task: it moves bytes while the exchange is waited for.
struct Driver {
    sender: http1::SendRequest<Full<Bytes>>,
    connection: Box<http1::Connection<TokioIo<Connection>, Full<Bytes>>>,
    has_ended: bool,
}

impl Driver {
    async fn new(connection: Connection) -> Result<Self, PostError> {
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(HEAD_BYTES_MAX)
            .max_header_size(HEAD_BYTES_MAX)
            .handshake(TokioIo::new(connection))
            .await
            .map_err(|_| PostError::NoResponse)?;
        Ok(Self {
            sender,
            connection: Box::new(connection),
            has_ended: false,
        })
    }

    /// Waits for a future of this exchange; `None` when the connection ends first.
    async fn drive<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|cx| {
            self.has_ended = self.has_ended || Pin::new(&mut self.connection).poll(cx).is_ready();
            match future.as_mut().poll(cx) {
                Poll::Pending if self.has_ended => Poll::Ready(None),
                polled => polled.map(Some),
            }
        })
        .await
    }

    /// Why there is no head. hyper does not say whether anything was received.
    fn send_error(self, error: Option<hyper::Error>) -> SendError {
        let received = self.connection.into_parts().io.inner().received;
        // A request is cancelled when the receiver speaks before it.
        let is_malformed = |error: hyper::Error| error.is_parse() || error.is_canceled();
        let is_malformed = received > RESPONSE_BYTES_MAX || error.is_some_and(is_malformed);
        let error = match received > 0 && is_malformed {
            true => PostError::Malformed,
            false => PostError::NoResponse,
        };
        SendError {
            error,
            no_bytes_received: received == 0,
        }
    }

    /// The connection, when hyper is ready for another request and nothing has been read of a next response.
    fn into_idle(self) -> Option<Connection> {
        let is_idle = !self.has_ended && self.sender.is_ready();
        is_idle.then(|| self.connection.into_parts().io.into_inner())
    }
}
