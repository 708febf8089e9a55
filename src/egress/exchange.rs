//! One `POST` to an admitted URL.

use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, RETRY_AFTER, TRANSFER_ENCODING,
};
use hyper::{Method, Request, Uri};
use tokio::time::{Instant, timeout_at};

use super::admission::Egress;
use super::connection::{Connection, PostError, PostRequest, ResponseHead, SendError};
use super::url::AdmittedUrl;
use crate::domain::moment::Moment;

/// Time limits of an exchange.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// To connect, TLS included. Several addresses share it.
    pub connect: Duration,
    /// For the whole exchange, from connecting to reading the response's body.
    pub total: Duration,
}

/// A request.
#[derive(Debug, Clone)]
pub struct OutgoingRequest {
    /// All headers except `Host` and `Content-Length`.
    pub headers: HeaderMap,
    /// The exact bytes of the body.
    pub body: Bytes,
}

/// A response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiverResponse {
    /// The HTTP status.
    pub status: u16,
    /// How long it took until the head of the response was there.
    pub took: Duration,
    /// When it asks to be called again.
    pub retry_after: Option<RetryAfter>,
}

/// When a receiver asks to be called again: the header `Retry-After`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    /// After this time.
    Pause(Duration),
    /// At this time.
    At(Moment),
}

impl RetryAfter {
    /// Reads a number of seconds or an HTTP date.
    fn parse(text: &str) -> Option<Self> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match is_number {
            // What does not fit is longer than anybody waits.
            true => Some(Self::Pause(Duration::from_secs(
                text.parse::<u32>().unwrap_or(u32::MAX).into(),
            ))),
            false => Moment::parse_http_date(text).map(Self::At),
        }
    }

    /// How long that is from `now_ms` on.
    pub fn pause(self, now_ms: i64) -> Duration {
        match self {
            Self::Pause(pause) => pause,
            Self::At(at) => Duration::from_millis(u64::try_from(at.as_ms() - now_ms).unwrap_or(0)),
        }
    }
}

impl ReceiverResponse {
    /// Whether the receiver accepted the request: status 200 to 299.
    pub fn is_success(self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Egress {
    /// Sends one `POST` over an idle connection of the same recipient `to`, if it goes to an address that was checked for this
    /// request, or over a new one; without a recipient over a connection of its own. If the receiver closes an idle connection
    /// without a response, the request is sent again over a new one. The head of the response decides; redirects are not
    /// followed.
    ///
    /// # Errors
    /// [`PostError`], when no head arrives within the limits.
    pub async fn post(
        &self,
        to: Option<&str>,
        url: &AdmittedUrl,
        outgoing: OutgoingRequest,
        limits: Limits,
    ) -> Result<ReceiverResponse, PostError> {
        let begun = Instant::now();
        let deadline = begun + limits.total;
        let request = request_to(url, outgoing);
        let over_new = |request| self.send_over_new(url, request, limits, deadline);
        let head = match to.and_then(|to| self.pool.take(to, url)) {
            None => over_new(request).await?,
            Some(idle) => match send_by(deadline, idle, request.clone()).await {
                Ok(head) => head,
                Err(failed) if failed.no_bytes_received => over_new(request).await?,
                Err(failed) => return Err(failed.error),
            },
        };
        let response = ReceiverResponse {
            status: head.status(),
            took: begun.elapsed(),
            retry_after: head.header(RETRY_AFTER).and_then(RetryAfter::parse),
        };
        // In the heap, so that it takes nothing while the response is waited for.
        let connection = Box::pin(head.drain(deadline)).await;
        if let (Some(to), Some(connection)) = (to, connection) {
            self.pool.put(to, url, connection);
        }
        Ok(response)
    }

    async fn send_over_new(
        &self,
        url: &AdmittedUrl,
        request: PostRequest,
        limits: Limits,
        deadline: Instant,
    ) -> Result<ResponseHead, PostError> {
        let connected_by = deadline.min(Instant::now() + limits.connect);
        // In the heap, so that what a handshake needs is gone while the response is waited for.
        let connection = Box::pin(self.open(url, connected_by)).await?;
        let sent = send_by(deadline, connection, request).await;
        sent.map_err(|failed| failed.error)
    }
}

async fn send_by(
    deadline: Instant,
    connection: Connection,
    request: PostRequest,
) -> Result<ResponseHead, SendError> {
    let sent = timeout_at(deadline, connection.send(request)).await;
    sent.map_err(|_| SendError::from(PostError::Timeout))?
}

/// Headers that only the exchange itself sets.
const OWN_HEADERS: [HeaderName; 4] = [HOST, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION];

/// hyper adds the length.
fn request_to(url: &AdmittedUrl, outgoing: OutgoingRequest) -> PostRequest {
    let OutgoingRequest { mut headers, body } = outgoing;
    for name in OWN_HEADERS {
        headers.remove(name);
    }
    headers.insert(HOST, url.url.authority().clone());
    let mut request = Box::new(Request::new(Full::new(body)));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = Uri::from(url.url.path_and_query().clone());
    *request.headers_mut() = headers;
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_a_number_of_seconds_or_an_http_date() {
        let now_ms = 784_111_717_000;
        for (text, seconds) in [
            ("0", Some(0)),
            ("120", Some(120)),
            ("99999999999999999999", Some(u64::from(u32::MAX))),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:48:00 GMT", Some(0)),
            ("", None),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("1994-11-06T08:49:37Z", None),
        ] {
            let pause = RetryAfter::parse(text).map(|requested| requested.pause(now_ms));
            assert_eq!(pause, seconds.map(Duration::from_secs), "{text}");
        }
    }
}
