//! Connection timeouts: a client must begin, finish the head of a request, and read its response, in time.
//!
//! A connection that closes in the middle of a request lingers. If its socket were closed while bytes come in, the system would
//! reset it, and a client that sends its whole request first would get an error instead of its response.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::config::ConnectionLimits;

/// The start from which the times of all connections are counted.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Counts the requests of a connection.
#[derive(Debug, Default)]
pub(super) struct Progress {
    begun: AtomicU64,
    responded: AtomicU64,
    /// When it was accepted or last served, in microseconds after the start.
    served_at: AtomicU64,
    /// Whether the client leaves a part of its response unread.
    unread: AtomicBool,
    /// Whether the last response came before the whole body.
    cut_off: AtomicBool,
    closing: Notify,
}

impl Progress {
    /// A connection that was accepted just now.
    pub(super) fn accepted() -> Self {
        let progress = Self::default();
        progress.serve();
        progress
    }

    /// Since when it has no request; `None` while it has one, or a response that is not sent yet.
    pub(super) fn idle_since(&self) -> Option<u64> {
        let served_at = self.served_at.load(Ordering::Relaxed);
        let is_idle = self.is_between_requests() && !self.unread.load(Ordering::Relaxed);
        is_idle.then_some(served_at)
    }

    /// Asks that it be closed.
    pub(super) fn close(&self) {
        self.closing.notify_one();
    }

    /// Waits until somebody asks that it be closed.
    pub(super) async fn closing(&self) {
        self.closing.notified().await;
    }

    fn serve(&self) {
        let micros = u64::try_from(START.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.served_at.store(micros, Ordering::Relaxed);
    }

    /// The head of a request is complete.
    pub(super) fn begin(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    /// A request has its response.
    pub(super) fn respond(&self) {
        self.responded.fetch_add(1, Ordering::Relaxed);
    }

    /// The last response comes before the whole body, so that the connection ends with it.
    pub(super) fn cut_off(&self) {
        self.cut_off.store(true, Ordering::Relaxed);
    }

    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    fn is_between_requests(&self) -> bool {
        self.begun() == self.responded.load(Ordering::Relaxed)
    }
}

/// How much of the rest of a request a closing connection reads at most, in bytes.
const LINGER_BYTES_MAX: usize = 8 << 20;
/// How long that may take.
const LINGER_TIME_MAX: Duration = Duration::from_secs(2);

/// A stream whose reads and writes fail with [`io::ErrorKind::TimedOut`] when the client is too slow.
pub(super) struct TimedStream {
    stream: TcpStream,
    limits: ConnectionLimits,
    progress: Arc<Progress>,
    /// Runs until the first bytes of the connection.
    first: Option<Pin<Box<Sleep>>>,
    /// Begins with the first bytes of a head; a further request ends it.
    head: Option<Head>,
    /// What has come of that head.
    lines: HeadLines,
    /// Runs while the client reads nothing.
    reading: Option<Pin<Box<Sleep>>>,
    /// While the connection lingers: how much more it reads, and for how long.
    lingering: Option<(usize, Pin<Box<Sleep>>)>,
}

impl TimedStream {
    pub(super) fn new(
        stream: TcpStream,
        limits: ConnectionLimits,
        progress: Arc<Progress>,
    ) -> Self {
        Self {
            stream,
            limits,
            progress,
            first: Some(Box::pin(sleep(limits.first))),
            head: None,
            lines: HeadLines::default(),
            reading: None,
            lingering: None,
        }
    }

    /// Whether the client may be in the middle of a request: of a body that was refused, or a head that cannot be read.
    fn is_mid_request(&self) -> bool {
        let begun = self.progress.begun();
        let is_head = self.head.as_ref().is_some_and(|head| head.begun == begun);
        is_head || self.progress.cut_off.load(Ordering::Relaxed)
    }

    /// Reads and drops what the client sends, until it closes its side or a limit is reached.
    fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let limits = || (LINGER_BYTES_MAX, Box::pin(sleep(LINGER_TIME_MAX)));
        let (left, time) = self.lingering.get_or_insert_with(limits);
        let mut dropped = [0; 16 * 1024];
        loop {
            let mut buffer = ReadBuf::new(&mut dropped);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Pending => return time.as_mut().poll(cx),
                Poll::Ready(read) => {
                    let length = buffer.filled().len();
                    *left = left.saturating_sub(length);
                    if read.is_err() || length == 0 || *left == 0 {
                        return Poll::Ready(());
                    }
                }
            }
        }
    }

    /// The outcome of a write, or its timeout.
    fn written<T>(
        &mut self,
        cx: &mut Context<'_>,
        tried: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        self.progress
            .unread
            .store(tried.is_pending(), Ordering::Relaxed);
        if tried.is_ready() {
            self.progress.serve();
            self.reading = None;
            return tried;
        }
        let limit = self.limits.response;
        let reading = self.reading.get_or_insert_with(|| Box::pin(sleep(limit)));
        reading
            .as_mut()
            .poll(cx)
            .map(|()| timed_out("read its response", limit))
    }
}

fn timed_out<T>(what: &str, limit: Duration) -> io::Result<T> {
    let message = format!("the client did not {what} within {limit:?}");
    Err(io::Error::new(io::ErrorKind::TimedOut, message))
}

/// The head of a request.
struct Head {
    /// The number of requests begun before it.
    begun: u64,
    /// When it has to be complete.
    deadline: Instant,
    /// Runs until then, as soon as the client lets it be waited for.
    limit: Option<Pin<Box<Sleep>>>,
}

/// The lines of a head. The parser takes a line feed without a carriage return for the end of a line, and another server may not: what
/// one reads as a header, the other reads as a part of a value. So no such head is served.
#[derive(Debug, Default)]
struct HeadLines {
    /// Length of the line that has not ended, in bytes.
    length: usize,
    has_begun: bool,
    has_ended: bool,
    after_return: bool,
}

impl HeadLines {
    /// Makes the parser refuse the head with 400: replaces a bare line feed by a byte that no head may have.
    fn spoil_bare_line_feed(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            match (*byte, self.after_return) {
                _ if self.has_ended => return,
                (b'\n', true) => {
                    self.has_ended = self.has_begun && self.length == 0;
                    self.length = 0;
                }
                (b'\n', false) => {
                    *byte = 0;
                    self.has_ended = true;
                }
                (b'\r', _) => {}
                _ => {
                    self.length += 1;
                    self.has_begun = true;
                }
            }
            self.after_return = *byte == b'\r';
        }
    }
}

impl AsyncRead for TimedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let begun = this.progress.begun();
        this.head.take_if(|head| head.begun != begun);
        let before = buffer.filled().len();
        let tried = Pin::new(&mut this.stream).poll_read(cx, buffer);
        if tried.is_pending() {
            return match (&mut this.first, &mut this.head) {
                (Some(first), _) => first
                    .as_mut()
                    .poll(cx)
                    .map(|()| timed_out("begin", this.limits.first)),
                (None, Some(head)) => head
                    .limit
                    .get_or_insert_with(|| Box::pin(sleep_until(head.deadline)))
                    .as_mut()
                    .poll(cx)
                    .map(|()| timed_out("finish the head of a request", this.limits.head)),
                (None, None) => Poll::Pending,
            };
        }
        this.first = None;
        let read = &mut buffer.filled_mut()[before..];
        if !read.is_empty() && this.progress.is_between_requests() {
            if this.head.is_none() {
                this.head = Some(Head {
                    begun,
                    deadline: Instant::now() + this.limits.head,
                    limit: None,
                });
                this.lines = HeadLines::default();
            }
            this.lines.spoil_bare_line_feed(read);
        }
        tried
    }
}

impl AsyncWrite for TimedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(cx, tried)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.written(cx, tried)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.lingering.is_none() {
            ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
        }
        match this.is_mid_request() {
            true => this.poll_linger(cx).map(Ok),
            false => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_line_feed_is_spoiled_in_a_head_alone() {
        let good = "\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n{\n}\n";
        for (text, spoiled) in [
            (good, None),
            ("GET / HTTP/1.1\nHost: x\r\n\r\n", Some(14)),
            ("GET / HTTP/1.1\r\nHost: x\n\r\n", Some(23)),
            ("GET / HTTP/1.1\r\nHost: x\r\n\n", Some(25)),
            ("\nGET / HTTP/1.1\r\n\r\n", Some(0)),
        ] {
            for cut in 0..text.len() {
                let (mut lines, mut bytes) = (HeadLines::default(), text.as_bytes().to_vec());
                let (first, rest) = bytes.split_at_mut(cut);
                lines.spoil_bare_line_feed(first);
                lines.spoil_bare_line_feed(rest);
                let found = bytes.iter().position(|byte| *byte == 0);
                assert_eq!(found, spoiled, "{text:?} cut at {cut}");
            }
        }
    }
}
