//! One `POST` to an admitted URL.

use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use tokio::time::{Instant, timeout_at};

use super::admission::Egress;
use super::connection::{Broken, Connection, Received};
use super::failure::PostError;
use super::target::Target;

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
pub struct Outbound {
    /// All headers except `Host` and `Content-Length`.
    pub headers: HeaderMap,
    /// The exact bytes of the body.
    pub body: Bytes,
}

/// A response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posted {
    /// The HTTP status.
    pub status: u16,
    /// How long it took until the head of the response was there.
    pub took: Duration,
}

impl Posted {
    /// Whether the receiver accepted the request: status 200 to 299.
    pub fn is_success(self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Egress {
    /// Sends one `POST` over a connection that was kept from an earlier one of the same recipient `to`, if it goes to an address
    /// that was checked for this one, or over a new one. If the receiver closes a kept connection without a response, the
    /// request is sent again over a new one. The head of the response decides; redirects are not followed.
    ///
    /// # Errors
    /// [`PostError`], when no head arrives within the limits.
    pub async fn deliver(
        &self,
        to: &str,
        target: &Target,
        outbound: Outbound,
        limits: Limits,
    ) -> Result<Posted, PostError> {
        let begun = Begun::now(limits);
        let request = rendered(target, outbound);
        let received = match self.over_kept(&begun, to, target, &request).await {
            Some(received) => received?,
            None => self.over_new(&begun, target, &request).await?,
        };
        drop(request);
        let posted = begun.posted(&received);
        if let Some(connection) = received.drain(begun.deadline).await {
            self.kept.keep(to, target, connection);
        }
        Ok(posted)
    }

    /// The same over a connection of its own.
    ///
    /// # Errors
    /// [`PostError`], when no head arrives within the limits.
    pub async fn post(
        &self,
        target: &Target,
        outbound: Outbound,
        limits: Limits,
    ) -> Result<Posted, PostError> {
        let begun = Begun::now(limits);
        let request = rendered(target, outbound);
        let received = self.over_new(&begun, target, &request).await?;
        let posted = begun.posted(&received);
        received.drain(begun.deadline).await;
        Ok(posted)
    }

    /// `None` when there is no kept connection, or the receiver closed it before it sent anything.
    async fn over_kept(
        &self,
        begun: &Begun,
        to: &str,
        target: &Target,
        request: &[u8],
    ) -> Option<Result<Received, PostError>> {
        let kept = self.kept.take(to, target)?;
        match begun.send(kept, request).await {
            Err(broken) if broken.unheard => None,
            sent => Some(sent.map_err(|broken| broken.error)),
        }
    }

    async fn over_new(
        &self,
        begun: &Begun,
        target: &Target,
        request: &[u8],
    ) -> Result<Received, PostError> {
        // In the heap, so that what a handshake needs is gone while the response is waited for.
        let connection = Box::pin(self.open(target, begun.connected_by())).await?;
        let sent = begun.send(connection, request).await;
        sent.map_err(|broken| broken.error)
    }
}

/// An exchange under way.
struct Begun {
    at: Instant,
    deadline: Instant,
    connect: Duration,
}

impl Begun {
    fn now(limits: Limits) -> Self {
        let at = Instant::now();
        Self {
            at,
            deadline: at + limits.total,
            connect: limits.connect,
        }
    }

    fn connected_by(&self) -> Instant {
        self.deadline.min(Instant::now() + self.connect)
    }

    async fn send(&self, connection: Connection, request: &[u8]) -> Result<Received, Broken> {
        let sent = timeout_at(self.deadline, connection.send(request)).await;
        sent.map_err(|_| Broken::of(PostError::Timeout))?
    }

    fn posted(&self, received: &Received) -> Posted {
        Posted {
            status: received.status,
            took: self.at.elapsed(),
        }
    }
}

/// Headers that only the exchange itself sets.
const OWN_HEADERS: [HeaderName; 4] = [HOST, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION];

/// The bytes of a request.
fn rendered(target: &Target, outbound: Outbound) -> Vec<u8> {
    let Outbound { headers, body } = outbound;
    let (url, length) = (&target.url, body.len());
    let sent = || {
        let all = headers.iter();
        all.filter(|(name, _)| !OWN_HEADERS.contains(name))
    };
    let size = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + 4;
    let (path, authority) = (url.path_and_query(), url.authority());
    let headers_size: usize = sent().map(size).sum();
    let mut bytes = Vec::with_capacity(80 + path.len() + authority.len() + headers_size + length);
    let head = format!("POST {path} HTTP/1.1\r\nhost: {authority}\r\ncontent-length: {length}\r\n");
    bytes.extend_from_slice(head.as_bytes());
    for (name, value) in sent() {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            bytes.extend_from_slice(part);
        }
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(&body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::ReceiverUrl;

    #[test]
    fn a_request_has_one_host_and_one_length_and_its_path_ends_no_line() {
        let url = "http://a.test:81/in/%0d%0aX:%20y?q='\"<é>|^{}`";
        let url = ReceiverUrl::parse(url).expect("valid");
        let target = Target {
            url,
            addresses: Vec::new(),
        };
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("host", "b.test"),
            ("content-length", "9"),
            ("transfer-encoding", "chunked"),
            ("connection", "close"),
            ("x-team", "a b"),
        ] {
            headers.append(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        let body = Bytes::from_static(b"{}");
        let request = rendered(&target, Outbound { headers, body });
        let request = String::from_utf8(request).expect("text");
        let (line, rest) = request.split_once("\r\n").expect("a line");
        let headers = "host: a.test:81\r\ncontent-length: 2\r\nx-team: a b\r\n\r\n{}";
        assert_eq!(rest, headers);
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!((words[0], words[2], words.len()), ("POST", "HTTP/1.1", 3));
        assert!(words[1].bytes().all(|byte| byte.is_ascii_graphic()));
    }
}
