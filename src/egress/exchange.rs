//! One `POST` to an admitted URL.

use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request};
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
        let received = match self.over_kept(&begun, to, target, &outbound).await {
            Some(received) => received?,
            None => self.over_new(&begun, target, outbound).await?,
        };
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
        let received = self.over_new(&begun, target, outbound).await?;
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
        outbound: &Outbound,
    ) -> Option<Result<Received, PostError>> {
        let kept = self.kept.take(to, target)?;
        match begun.send(kept, target, outbound.clone()).await {
            Err(broken) if broken.unheard => None,
            sent => Some(sent.map_err(|broken| broken.error)),
        }
    }

    async fn over_new(
        &self,
        begun: &Begun,
        target: &Target,
        outbound: Outbound,
    ) -> Result<Received, PostError> {
        // In the heap, so that what a handshake needs is gone while the response is waited for.
        let connection = Box::pin(self.open(target, begun.connected_by())).await?;
        let sent = begun.send(connection, target, outbound).await;
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

    async fn send(
        &self,
        connection: Connection,
        target: &Target,
        outbound: Outbound,
    ) -> Result<Received, Broken> {
        let request = request(target, outbound).ok_or(Broken::of(PostError::NoResponse))?;
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

fn request(target: &Target, outbound: Outbound) -> Option<Request<Full<Bytes>>> {
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(target.url.path_and_query())
        .body(Full::new(outbound.body))
        .ok()?;
    let host = HeaderValue::from_str(&target.url.authority()).ok()?;
    *request.headers_mut() = outbound.headers;
    request.headers_mut().insert(HOST, host);
    Some(request)
}
