//! An HTTP/1 client that costs the generator little: one keep-alive connection with one request in flight.

use std::io;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::Url;

/// A request without a response by then is given up, and its connection closed.
const RESPONSE_LIMIT: Duration = Duration::from_secs(10);

/// A connection that opens with the next request when there is none.
#[derive(Default)]
pub(super) struct Connection(Option<SendRequest<Full<Bytes>>>);

impl Connection {
    /// Sends a request, and reads status and body of the response.
    ///
    /// # Errors
    /// A code and a message when there is no response.
    pub async fn send(
        &mut self,
        url: &Url,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), (&'static str, String)> {
        let mut sender = match self.0.take() {
            Some(sender) if !sender.is_closed() => sender,
            _ => connect(url)
                .await
                .map_err(|error| ("NOT_CONNECTED", format!("cannot connect: {error}")))?,
        };
        let exchange = async {
            sender.ready().await?;
            let response = sender.send_request(request).await?;
            let status = response.status();
            Ok::<_, hyper::Error>((status, response.into_body().collect().await?.to_bytes()))
        };
        let exchanged = timeout(RESPONSE_LIMIT, exchange).await;
        let late = |_| {
            (
                "NO_RESPONSE",
                format!("no response within {RESPONSE_LIMIT:?}"),
            )
        };
        let broken = |_| ("CONNECTION_LOST", "the connection broke".to_owned());
        let response = exchanged.map_err(late)?.map_err(broken)?;
        self.0 = Some(sender);
        Ok(response)
    }
}

async fn connect(url: &Url) -> io::Result<SendRequest<Full<Bytes>>> {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let port = url.port_or_known_default().unwrap_or(80);
    let stream = timeout(RESPONSE_LIMIT, TcpStream::connect((host, port))).await??;
    stream.set_nodelay(true)?;
    let mut builder = http1::Builder::new();
    // Requests are small: one copy costs less than a gathering write.
    let handshake = builder.writev(false).handshake(TokioIo::new(stream));
    let (sender, driver) = handshake.await.map_err(io::Error::other)?;
    tokio::spawn(driver);
    Ok(sender)
}
