//! A receiver of webhooks on this machine, and egress that reaches nothing else.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use budget_authority::egress::{Egress, Resolver, TrustedRoots};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What a receiver answers.
#[derive(Debug, Clone)]
pub enum Reply {
    /// This status, with these lines of headers.
    Status(u16, &'static str),
    /// A head, then a byte of the body now and then.
    Drip,
    /// A head, then more of a body than anybody reads.
    Flood,
    /// Nothing.
    Silence,
    /// The end of the connection.
    HangUp,
    /// Bytes before any request, which are no TLS.
    Greeting,
}

/// A request that arrived.
#[derive(Debug, Clone)]
pub struct Arrived {
    /// The first line.
    pub line: String,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Arrived {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// It ends with the test.
#[derive(Clone)]
pub struct Receiver {
    pub address: SocketAddr,
    arrived: Arc<Mutex<Vec<Arrived>>>,
}

impl Receiver {
    pub async fn start(reply: Reply) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let arrived = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&arrived);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (reply, kept) = (reply.clone(), Arc::clone(&kept));
                tokio::spawn(async move { serve(stream, reply, &kept).await });
            }
        });
        Self { address, arrived }
    }

    /// Where it listens, without TLS.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// All that arrived so far.
    pub fn arrived(&self) -> Vec<Arrived> {
        self.arrived.lock().expect("no panic").clone()
    }
}

async fn serve(mut stream: TcpStream, reply: Reply, kept: &Mutex<Vec<Arrived>>) {
    if let Reply::Greeting = reply {
        let _ = stream.write_all(b"220 mail.example ESMTP\r\n").await;
    }
    let Some(request) = read(&mut stream).await else {
        return;
    };
    kept.lock().expect("no panic").push(request);
    match reply {
        Reply::Status(status, headers) => {
            let head = format!("HTTP/1.1 {status} x\r\n{headers}Content-Length: 2\r\n\r\nok");
            let _ = stream.write_all(head.as_bytes()).await;
        }
        Reply::Drip => {
            let _ = stream
                .write_all(b"HTTP/1.1 200 x\r\nContent-Length: 1000\r\n\r\n")
                .await;
            while stream.write_all(b".").await.is_ok() {
                // The reply that never ends, byte by byte.
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Reply::Flood => {
            let _ = stream
                .write_all(b"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n")
                .await;
            let chunk = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
            while stream.write_all(chunk.as_bytes()).await.is_ok() {}
        }
        // Longer than any test waits.
        Reply::Silence => tokio::time::sleep(Duration::from_secs(60)).await,
        Reply::HangUp | Reply::Greeting => {}
    }
}

async fn read(stream: &mut TcpStream) -> Option<Arrived> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(bytes[..end].to_vec()).ok()?;
            let mut lines = head.lines();
            let line = lines.next()?.to_owned();
            let headers: Vec<(String, String)> = lines
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
                .collect();
            let length = headers.iter().find(|(name, _)| name == "content-length");
            let length: usize = length
                .and_then(|(_, value)| value.parse().ok())
                .unwrap_or(0);
            if bytes.len() >= end + 4 + length {
                let body = bytes[end + 4..end + 4 + length].to_vec();
                return Some(Arrived {
                    line,
                    headers,
                    body,
                });
            }
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

/// Egress whose names have the addresses that `resolve` returns; the names that were resolved are recorded.
pub fn egress(
    resolve: impl Fn(&str) -> Vec<IpAddr> + Send + Sync + 'static,
) -> (Egress, Arc<Mutex<Vec<String>>>) {
    let resolved = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&resolved);
    let resolver = Resolver::of(move |host| {
        noted.lock().expect("no panic").push(host.clone());
        let found = resolve(&host);
        async move {
            match found.is_empty() {
                true => Err(io::ErrorKind::NotFound.into()),
                false => Ok(found),
            }
        }
    });
    (Egress::new(resolver, &TrustedRoots::public()), resolved)
}

/// Egress on which every name that ends with `.example` has a public address, and no other name exists.
pub fn public_names() -> Egress {
    let resolve = |host: &str| match host.ends_with(".example") {
        true => vec![IpAddr::from([93, 184, 216, 34])],
        false => Vec::new(),
    };
    egress(resolve).0
}
