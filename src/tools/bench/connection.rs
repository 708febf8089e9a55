//! An HTTP/1 client that costs the generator little: one keep-alive connection with one request in flight.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Url;

use crate::tools::client::base_url;

/// A request without a response by then is given up, and its connection closed.
const RESPONSE_LIMIT: Duration = Duration::from_secs(10);

/// Reads the address of a service that is measured: plain HTTP, without query, fragment or credentials.
///
/// # Errors
/// What to write instead.
pub(super) fn plain_url(text: &str) -> Result<Url, String> {
    let url = base_url(text)?;
    let plain = url.username().is_empty() && url.password().is_none();
    match url.scheme() {
        "http" if plain && url.query().is_none() && url.fragment().is_none() => Ok(url),
        "http" => Err("a service's URL has no query, fragment or credentials".to_owned()),
        _ => Err("only plain http:// can be measured, without TLS before the service".to_owned()),
    }
}

/// The path of a service before `/v1`, without a slash at its end.
pub(super) fn base_path(url: &Url) -> &str {
    url.path().trim_end_matches('/')
}

/// A connection that opens when there is none.
pub(super) struct Connection {
    url: Arc<Url>,
    host: HeaderValue,
    sender: Option<SendRequest<Full<Bytes>>>,
}

/// A response, read to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Response {
    pub status: StatusCode,
    pub body: Bytes,
}

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum NoResponse {
    /// The request was not sent.
    #[error("cannot connect")]
    NotConnected(#[source] io::Error),
    /// The service may have processed the request.
    #[error("the connection broke")]
    Broken,
    /// The service may have processed the request, or may still do so.
    #[error("no response within {RESPONSE_LIMIT:?}")]
    Late,
}

impl Connection {
    pub fn new(url: Arc<Url>) -> Self {
        Self {
            host: HeaderValue::from_str(url.authority()).expect("an authority is ASCII"),
            url,
            sender: None,
        }
    }

    /// Sends a request and reads the response.
    ///
    /// # Errors
    /// [`NoResponse`]; the next request opens a new connection.
    pub async fn send(
        &mut self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response, NoResponse> {
        request.headers_mut().insert(HOST, self.host.clone());
        let mut sender = match self.sender.take() {
            Some(sender) if !sender.is_closed() => sender,
            _ => connect(&self.url).await.map_err(NoResponse::NotConnected)?,
        };
        let exchange = async {
            sender.ready().await?;
            let response = sender.send_request(request).await?;
            let status = response.status();
            let body = response.into_body().collect().await?.to_bytes();
            Ok::<_, hyper::Error>(Response { status, body })
        };
        let response = timeout(RESPONSE_LIMIT, exchange).await;
        let response = response.map_err(|_| NoResponse::Late)?;
        let response = response.map_err(|_| NoResponse::Broken)?;
        self.sender = Some(sender);
        Ok(response)
    }
}

async fn connect(url: &Url) -> io::Result<SendRequest<Full<Bytes>>> {
    let host = url.host_str().unwrap_or_default();
    let port = url.port_or_known_default().unwrap_or(80);
    let connecting = TcpStream::connect((host.trim_matches(['[', ']']), port));
    let stream = timeout(RESPONSE_LIMIT, connecting).await??;
    stream.set_nodelay(true)?;
    let (sender, driver) = http1::Builder::new()
        // Requests are small: one copy costs less than a gathering write.
        .writev(false)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    tokio::spawn(driver);
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_host_port_and_path() {
        let parts = |text: &str| {
            let url = plain_url(text).expect(text);
            (url.authority().to_owned(), base_path(&url).to_owned())
        };
        let expected = |authority: &str, path: &str| (authority.to_owned(), path.to_owned());
        assert_eq!(parts("http://api.test"), expected("api.test", ""));
        assert_eq!(
            parts("http://[::1]:7878/budget/"),
            expected("[::1]:7878", "/budget")
        );
    }

    #[test]
    fn other_urls_are_refused() {
        for (text, reason) in [
            ("127.0.0.1:7878", "not a URL"),
            ("https://api.test", "plain http"),
            ("http://me@api.test", "no query"),
            ("http://api.test?x=1", "no query"),
        ] {
            let refusal = plain_url(text).expect_err(text);
            assert!(refusal.contains(reason), "{text}: {refusal}");
        }
    }
}
