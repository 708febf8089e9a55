//! A small HTTP client for our own API.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Sends one request on a connection of its own; returns status and JSON body (null where there is none).
pub(super) async fn send(
    address: SocketAddr,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&Value>,
) -> io::Result<(u16, Value)> {
    let exchange = async {
        let stream = TcpStream::connect(address).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, address.to_string());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let bytes = match body {
            Some(body) => {
                request = request.header(CONTENT_TYPE, "application/json");
                body.to_string()
            }
            None => String::new(),
        };
        let request = request
            .body(Full::new(Bytes::from(bytes)))
            .map_err(io::Error::other)?;
        let response = sender
            .send_request(request)
            .await
            .map_err(io::Error::other)?;
        let status = response.status().as_u16();
        let body = response
            .into_body()
            .collect()
            .await
            .map_err(io::Error::other)?
            .to_bytes();
        Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    };
    let late = || io::Error::from(io::ErrorKind::TimedOut);
    timeout(Duration::from_secs(5), exchange)
        .await
        .map_err(|_| late())?
}
