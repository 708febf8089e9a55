//! One `POST` to a judged address, from connecting to the last byte that is read of the answer.

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
use tokio::time::{Instant as Deadline, timeout_at};

use super::{Egress, Target};

/// More of an answer's body is not read; it is discarded anyway.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Until there is a connection, TLS included.
    pub connect: Duration,
    /// The whole exchange, connecting and reading the answer's body included.
    pub total: Duration,
}

/// What is sent.
#[derive(Debug)]
pub struct Outbound {
    /// All headers but `Host` and `Content-Length`.
    pub headers: HeaderMap,
    /// The exact bytes.
    pub body: Bytes,
}

/// What came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posted {
    /// The status of the answer.
    pub status: u16,
    /// How long the exchange took.
    pub took: Duration,
}

impl Posted {
    /// Whether the receiver has taken it: nothing but 200 to 299 means that.
    pub fn is_success(self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// Why there was no answer. `Display` is fit for a tenant's eyes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages are the documentation")]
pub enum PostError {
    #[error("Connection timed out")]
    ConnectTimeout,
    #[error("Request timed out")]
    Timeout,
    #[error("Connection refused")]
    Refused,
    #[error("Connection failed")]
    Unreachable,
    #[error("TLS/SSL handshake failed")]
    Tls,
    #[error("The connection ended without an answer")]
    NoAnswer,
}

impl Egress {
    /// Sends one `POST` over a connection of its own, to one of the addresses that were judged. A redirect is an answer like
    /// any other.
    ///
    /// # Errors
    /// [`PostError`].
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

/// The first of the addresses that takes a connection.
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
    let answered = async {
        let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = shaken.map_err(|_| PostError::NoAnswer)?;
        let driver = AbortOnDrop(tokio::spawn(connection));
        let request = request(target, outbound).ok_or(PostError::NoAnswer)?;
        let answer = sender.send_request(request).await;
        let answer = answer.map_err(|_| PostError::NoAnswer)?;
        let status = answer.status().as_u16();
        let mut body = answer.into_body();
        let mut read = 0;
        // A receiver that sends headers and then drips is one that has not answered in time.
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| PostError::NoAnswer)?;
            read += frame.data_ref().map_or(0, Bytes::len);
            if read >= ANSWER_BYTES_MAX {
                break;
            }
        }
        drop(driver);
        Ok(status)
    };
    let answered = timeout_at(deadline, answered).await;
    answered.map_err(|_| PostError::Timeout)?
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

/// The connection ends with the exchange, whatever became of it.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
