//! The bytes of one connection, with or without TLS.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// A connected stream, which notes whether the receiver has sent anything.
pub(super) struct Stream {
    wire: Wire,
    heard: Heard,
}

/// With or without TLS.
pub(super) enum Wire {
    Plain(TcpStream),
    Secured(Box<TlsStream<TcpStream>>),
}

/// Whether anything has arrived since the last request was sent.
#[derive(Clone, Default)]
pub(super) struct Heard(Arc<AtomicBool>);

impl Heard {
    pub fn reset(&self) {
        self.0.store(false, Ordering::Release);
    }

    pub fn anything(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Stream {
    pub fn new(wire: Wire, heard: Heard) -> Self {
        Self { wire, heard }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Wire::Secured(stream) => Pin::new(stream).poll_read(cx, buffer),
        };
        if buffer.filled().len() > before {
            self.heard.0.store(true, Ordering::Release);
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Wire::Secured(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Wire::Secured(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Wire::Secured(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.wire {
            Wire::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Wire::Secured(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
