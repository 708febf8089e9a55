//! One HTTP/1.1 connection by hand, for tests that must know which request was sent on which connection.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// See the module documentation.
pub struct Wire {
    stream: TcpStream,
    received: Vec<u8>,
}

/// A response, and whether the server asked to close the connection.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub close: bool,
    pub body: Value,
}

impl Wire {
    /// Connects; `None` when nobody listens.
    pub async fn open(address: SocketAddr) -> Option<Self> {
        let stream = TcpStream::connect(address).await.ok()?;
        let received = Vec::new();
        Some(Self { stream, received })
    }

    /// Sends a `POST` and reads its response; `None` when the connection ended before it was complete.
    pub async fn post(&mut self, key: &str, path: &str, body: &Value) -> Option<Reply> {
        let body = body.to_string();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: budget\r\nX-Service-API-Key: {key}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.stream.write_all(request.as_bytes()).await.ok()?;
        let head_end = loop {
            let end = self
                .received
                .windows(4)
                .position(|window| window == b"\r\n\r\n");
            match end {
                Some(end) => break end + 4,
                None => self.receive().await?,
            }
        };
        let head = String::from_utf8_lossy(&self.received[..head_end]).to_lowercase();
        let header = |name: &str| {
            let line = head.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let length: usize = header("content-length")?.parse().ok()?;
        while self.received.len() < head_end + length {
            self.receive().await?;
        }
        let reply = Reply {
            status: head.split(' ').nth(1)?.parse().ok()?,
            close: header("connection").as_deref() == Some("close"),
            body: serde_json::from_slice(&self.received[head_end..head_end + length]).ok()?,
        };
        self.received.drain(..head_end + length);
        Some(reply)
    }

    async fn receive(&mut self) -> Option<()> {
        match self.stream.read_buf(&mut self.received).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(()),
        }
    }
}
