//! Request bodies that are refused unread. Clients send head and body apart; a server that closes the connection before the
//! body has come breaks the next request on it. So a short body is read before the response. A longer one ends its connection,
//! which then lingers (see [`super::timeouts`]).

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use parking_lot::Mutex;

/// How much of an unread body is read at most, in bytes.
const READ_BYTES_MAX: usize = 64 * 1024;
/// How long that may take.
const READ_TIME_MAX: Duration = Duration::from_millis(500);

/// A request body that two share: the handler, and the connection that reads what the handler left.
#[derive(Clone)]
pub(super) struct SharedBody(Arc<Mutex<State>>);

struct State {
    body: Incoming,
    was_read: bool,
    has_ended: bool,
}

impl SharedBody {
    pub(super) fn new(body: Incoming) -> Self {
        let state = State {
            body,
            was_read: false,
            has_ended: false,
        };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Whether all of it has been read.
    pub(super) fn has_ended(&self) -> bool {
        self.with(|state| state.has_ended || state.body.is_end_stream())
    }

    /// Reads a body that nobody has begun to read, within both limits. A longer or slower one ends its connection.
    pub(super) async fn read_if_unread(&self) {
        let is_long = self.size_hint().lower() > READ_BYTES_MAX as u64;
        if is_long || self.has_ended() || self.with(|state| state.was_read) {
            return;
        }
        let read = async {
            let mut left = READ_BYTES_MAX;
            while let Some(Ok(frame)) = poll_fn(|cx| self.poll(cx)).await {
                let length = frame.data_ref().map_or(0, Bytes::len);
                left = left.checked_sub(length)?;
            }
            Some(())
        };
        let _ = tokio::time::timeout(READ_TIME_MAX, read).await;
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.with(|state| {
            state.was_read = true;
            let frame = Pin::new(&mut state.body).poll_frame(cx);
            state.has_ended |= matches!(frame, Poll::Ready(None));
            frame
        })
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock())
    }
}

impl Body for SharedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.poll(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.with(|state| state.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.with(|state| state.body.size_hint())
    }
}
