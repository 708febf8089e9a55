//! One `POST` to an admitted URL.

use std::io;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant as Deadline, timeout_at};

use super::admission::{Egress, Target};

/// How much of a response's body is read, and discarded.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;

/// Time limits of an exchange.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// To connect, TLS included.
    pub connect: Duration,
    /// For the whole exchange, from connecting to reading the response's body.
    pub total: Duration,
}

/// A request.
#[derive(Debug)]
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
    /// How long the exchange took.
    pub took: Duration,
}

impl Posted {
    /// Whether the receiver accepted the request: status 200 to 299.
    pub fn is_success(self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// Why there was no response. `Display` is safe to show to tenants: it is the same for all failures to connect, which would
/// else tell hosts and ports of a network apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages are the documentation")]
pub enum PostError {
    #[error("Connection failed")]
    ConnectTimeout,
    #[error("Request timed out")]
    Timeout,
    #[error("Connection failed")]
    Refused,
    #[error("Connection failed")]
    Unreachable,
    #[error("TLS/SSL handshake failed")]
    Tls,
    #[error("The connection ended without a response")]
    NoResponse,
}

impl Egress {
    /// Sends one `POST` over a new connection to one of the checked addresses. Redirects are not followed.
    pub async fn post(
        &self,
        target: &Target,
        outbound: Outbound,
        limits: Limits,
    ) -> Result<Posted, PostError> {
        let begun = Instant::now();
        let deadline = Deadline::now() + limits.total;
        let connected_by = deadline.min(Deadline::now() + limits.connect);
        let stream = timeout_at(connected_by, connect(target)).await;
        let stream = stream.map_err(|_| PostError::ConnectTimeout)??;
        let status = if target.url.is_plain() {
            exchange(stream, target, outbound, deadline).await
        } else {
            let name = server_name(target).ok_or(PostError::Tls)?;
            let secured = timeout_at(connected_by, self.tls.connect(name, stream)).await;
            let secured = secured.map_err(|_| PostError::ConnectTimeout)?;
            let secured = secured.map_err(|_| PostError::Tls)?;
            exchange(secured, target, outbound, deadline).await
        }?;
        Ok(Posted {
            status,
            took: begun.elapsed(),
        })
    }
}

/// Connects to the first address that accepts.
async fn connect(target: &Target) -> Result<TcpStream, PostError> {
    let mut failure = PostError::Unreachable;
    for address in &target.addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                failure = PostError::Refused;
            }
            Err(_) => {}
        }
    }
    Err(failure)
}

fn server_name(target: &Target) -> Option<ServerName<'static>> {
    match target.url.ip() {
        Some(ip) => Some(ServerName::IpAddress(ip.into())),
        None => ServerName::try_from(target.url.host().trim_end_matches('.').to_owned()).ok(),
    }
}

async fn exchange<S>(
    stream: S,
    target: &Target,
    outbound: Outbound,
    deadline: Deadline,
) -> Result<u16, PostError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let exchanged = async {
        let connected = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = connected.map_err(|_| PostError::NoResponse)?;
        // Closes the connection with the exchange, whatever its outcome.
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        let request = request(target, outbound).ok_or(PostError::NoResponse)?;
        let response = sender.send_request(request).await;
        let response = response.map_err(|_| PostError::NoResponse)?;
        let status = response.status().as_u16();
        let mut body = response.into_body();
        let mut read = 0;
        // A receiver that sends its body too slowly runs into the deadline.
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| PostError::NoResponse)?;
            read += frame.data_ref().map_or(0, Bytes::len);
            if read >= RESPONSE_BYTES_MAX {
                break;
            }
        }
        drop(driver);
        Ok(status)
    };
    let exchanged = timeout_at(deadline, exchanged).await;
    exchanged.map_err(|_| PostError::Timeout)?
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
