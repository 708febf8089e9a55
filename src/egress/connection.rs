//! One connection to a receiver: one request at a time, moved by whoever sends it.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, timeout_at};

use super::failure::PostError;
use super::head::{Body, Head, Malformed};
use super::stream::Stream;

/// How much of a response's body is read, and discarded.
const BODY_BYTES_MAX: u64 = 64 * 1024;

/// How long a response's body is read.
const BODY_LIMIT: Duration = Duration::from_secs(1);

/// The head of a response with the interim ones before it, in bytes.
const HEAD_BYTES_MAX: usize = 32 * 1024;

/// What is read at a time, to begin with: most responses are shorter.
const READ_BYTES: usize = 1024;

/// An open connection. Dropping it closes it.
pub(super) struct Connection {
    /// The address that it goes to.
    pub address: SocketAddr,
    stream: Stream,
    /// Counted while the connection exists.
    _ticket: Ticket,
}

/// Counts the connections that are open at a time: the number of copies is the number of connections.
pub(super) type Ticket = Arc<()>;

/// A response whose head has arrived.
pub(super) struct Received {
    pub status: u16,
    head: Head,
    /// What has arrived of the body.
    bytes: Vec<u8>,
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

impl From<Malformed> for Broken {
    fn from(_: Malformed) -> Self {
        Self::of(PostError::Malformed)
    }
}

impl Connection {
    pub fn new(stream: Stream, address: SocketAddr, ticket: Ticket) -> Self {
        Self {
            address,
            stream,
            _ticket: ticket,
        }
    }

    /// Whether an unused connection can be used: the receiver has neither closed it nor sent anything, as far as is known.
    pub fn is_silent(&mut self) -> bool {
        let mut byte = [0];
        let mut context = Context::from_waker(Waker::noop());
        let mut buffer = ReadBuf::new(&mut byte);
        let read = Pin::new(&mut self.stream).poll_read(&mut context, &mut buffer);
        matches!(read, Poll::Pending)
    }

    /// Sends a request and waits for the head of its response. Interim responses are skipped.
    pub async fn send(mut self, request: &[u8]) -> Result<Received, Broken> {
        // A receiver may respond before it has read all, and close.
        if self.stream.write_all(request).await.is_ok() {
            let _ = self.stream.flush().await;
        }
        let (mut bytes, mut heard) = (Vec::with_capacity(READ_BYTES), 0);
        loop {
            let before = bytes.len();
            let Ok(length @ 1..) = self.stream.read_buf(&mut bytes).await else {
                return Err(Broken {
                    error: PostError::NoResponse,
                    unheard: heard == 0,
                });
            };
            heard += length;
            if let Some(head) = head_of(&mut bytes, before)? {
                return Ok(Received {
                    status: head.status,
                    head,
                    bytes,
                    connection: self,
                });
            }
            // Interim responses without end would keep the parser busy.
            if heard >= HEAD_BYTES_MAX {
                return Err(Malformed.into());
            }
        }
    }
}

/// Takes the heads from the start of `bytes` until one is not interim. A head that is incomplete is not parsed again before
/// its end is there, since a receiver could send it byte by byte.
fn head_of(bytes: &mut Vec<u8>, before: usize) -> Result<Option<Head>, Malformed> {
    let unseen = &bytes[before.saturating_sub(3)..];
    let ends = |end: &[u8]| unseen.windows(end.len()).any(|found| found == end);
    if before > 0 && !ends(b"\r\n\r\n") && !ends(b"\n\n") && !ends(b"\n\r\n") {
        return Ok(None);
    }
    while let Some(head) = Head::parse(bytes)? {
        if head.length > HEAD_BYTES_MAX {
            return Err(Malformed);
        }
        bytes.drain(..head.length);
        if !head.is_interim() {
            return Ok(Some(head));
        }
    }
    Ok(None)
}

impl Received {
    /// Reads the body and discards it. Returns the connection if it can be used again: the body ended within its limits and
    /// neither side closes.
    pub async fn drain(mut self, deadline: Instant) -> Option<Connection> {
        let deadline = deadline.min(Instant::now() + BODY_LIMIT);
        let ended = timeout_at(deadline, self.read_to_end()).await;
        let usable = self.head.keeps && self.status != 101;
        (usable && ended.is_ok_and(|ended| ended.is_some())).then_some(self.connection)
    }

    /// `None` when the body has no end, a late one, or more after it.
    async fn read_to_end(&mut self) -> Option<()> {
        let mut read = 0;
        loop {
            let bytes = self.bytes.as_slice();
            let arrived = u64::try_from(bytes.len()).ok()?;
            read += arrived;
            match &mut self.head.body {
                Body::Length(0) => return bytes.is_empty().then_some(()),
                Body::Length(rest) => *rest = rest.checked_sub(arrived)?,
                Body::Chunked(chunks) => {
                    if chunks.read(bytes).ok()? {
                        return (read <= BODY_BYTES_MAX).then_some(());
                    }
                }
                Body::Rest => {}
            }
            if let Body::Length(0) = self.head.body {
                return (read <= BODY_BYTES_MAX).then_some(());
            }
            if read > BODY_BYTES_MAX {
                return None;
            }
            self.bytes.clear();
            let more = self.connection.stream.read_buf(&mut self.bytes).await;
            if more.ok()? == 0 {
                return None;
            }
        }
    }
}
