//! Requests byte by byte, as no client library would send them.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// One response of a connection.
#[derive(Debug)]
pub struct Raw {
    pub status: u16,
    /// Status line and headers, names in lower case.
    pub head: String,
    pub body: String,
}

impl Raw {
    /// Panics unless the status is the expected one.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// The status and the code of an error; `none` without a JSON body.
    pub fn error(&self) -> (u16, String) {
        let body: Value = serde_json::from_str(&self.body).unwrap_or_default();
        let code = body["error"].as_str().unwrap_or("none");
        (self.status, code.to_owned())
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let start = format!("{}: ", name.to_lowercase());
        self.head
            .lines()
            .find_map(|line| line.strip_prefix(start.as_str()))
    }
}

/// Sends bytes on a connection of its own and reads until the server closes it.
pub async fn exchange(address: SocketAddr, request: &[u8]) -> Vec<Raw> {
    exchange_slowly(address, &[request]).await
}

/// The same, with a pause between the parts.
pub async fn exchange_slowly(address: SocketAddr, parts: &[&[u8]]) -> Vec<Raw> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("a setting");
        for (sent, part) in parts.iter().enumerate() {
            if sent > 0 {
                // The subject: the server has handled the part before the next one comes.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            // A server may respond and close while the client is still writing.
            let _ = stream.write_all(part).await;
        }
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes).await;
        bytes
    };
    let bytes = tokio::time::timeout(Duration::from_secs(20), exchange).await;
    let text = String::from_utf8(bytes.expect("the server closes the connection"));
    responses(&text.expect("UTF-8"))
}

/// The only response to bytes after which the server closes.
pub async fn response_to(address: SocketAddr, request: &[u8]) -> Raw {
    let mut responses = exchange(address, request).await;
    let response = responses.pop().expect("an answer");
    assert!(responses.is_empty(), "{responses:?} before {response:?}");
    response
}

fn responses(mut text: &str) -> Vec<Raw> {
    let mut found = Vec::new();
    while let Some((head, rest)) = text.split_once("\r\n\r\n") {
        let (line, headers) = head.split_once("\r\n").unwrap_or((head, ""));
        let status = line
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let lower = |line: &str| match line.split_once(':') {
            Some((name, value)) => format!("{}:{value}", name.to_lowercase()),
            None => line.to_owned(),
        };
        let headers: Vec<_> = headers.lines().map(lower).collect();
        let mut raw = Raw {
            status: status.unwrap_or_else(|| panic!("a status in {line}")),
            head: format!("{line}\n{}", headers.join("\n")),
            body: String::new(),
        };
        let length = raw.header("content-length");
        let length = length.map_or(0, |length| length.parse().expect("a length"));
        raw.body = rest[..length].to_owned();
        text = &rest[length..];
        found.push(raw);
    }
    assert_eq!(text, "", "after {found:?}");
    found
}
