//! A receiver of webhooks on this machine, and egress that reaches nothing else.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use budget_authority::egress::{Egress, Resolver, TrustedRoots};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::redis::tls_file;

/// The replies of a receiver to each request of a connection.
#[derive(Debug, Clone)]
pub enum Reply {
    /// This status, with these lines of headers.
    Status(u16, &'static str),
    /// The same, then the end of the connection.
    Last(u16),
    /// 200 to this many requests of a connection, then it closes the connection.
    Times(usize),
    /// 200 to the first request of a connection; the second one gets half a head, then the end.
    HalfLater,
    /// This percentage of requests fails: with 500, half a head, or a closed connection. Of two thousand this many get no
    /// response. The others get 200 after a moment.
    Fitful { failing: u32, silent: u32 },
    /// 200 after a while.
    After(Duration),
    /// This status after a while.
    Late(u16, Duration),
    /// These bytes.
    Bytes(String),
    /// These bytes, then the end of the connection.
    BytesThenEnd(String),
    /// A head, then a byte of the body now and then.
    Drip,
    /// A head, then more of a body than anybody reads.
    Flood,
    /// Nothing until the reply is another one; then that.
    Held,
    /// Nothing.
    Silence,
    /// The end of the connection.
    HangUp,
    /// Bytes before any request, which are no TLS.
    Greeting,
}

/// A request that arrived.
#[derive(Debug, Clone)]
pub struct ReceivedRequest {
    /// The first line.
    pub line: String,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Its place among all requests that arrived anywhere.
    pub place: usize,
    /// Whether [`Reply::Fitful`] has answered it with 200.
    pub is_taken: bool,
}

/// How many requests have arrived anywhere.
static ARRIVED: AtomicUsize = AtomicUsize::new(0);

impl ReceivedRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// It stops when dropped.
#[derive(Clone)]
pub struct Receiver {
    pub address: SocketAddr,
    reply: Arc<Mutex<Reply>>,
    arrived: Arc<Mutex<Vec<ReceivedRequest>>>,
    connections: Arc<Connections>,
}

#[derive(Default)]
struct Connections {
    accepted: AtomicUsize,
    open: AtomicUsize,
}

impl Receiver {
    pub async fn start(reply: Reply) -> Self {
        Self::start_at(IpAddr::from([127, 0, 0, 1]), reply, None).await
    }

    /// With the certificate of `localhost` and 127.0.0.1, which [`trusting_egress`] trusts.
    pub async fn start_with_tls(reply: Reply) -> Self {
        let acceptor = Some(tls_acceptor());
        Self::start_at(IpAddr::from([127, 0, 0, 1]), reply, acceptor).await
    }

    /// On all addresses of this machine.
    pub async fn start_everywhere(reply: Reply) -> Self {
        Self::start_at(IpAddr::from([0, 0, 0, 0]), reply, None).await
    }

    async fn start_at(ip: IpAddr, reply: Reply, acceptor: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind((ip, 0)).await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let receiver = Self {
            address,
            reply: Arc::new(Mutex::new(reply)),
            arrived: Arc::default(),
            connections: Arc::default(),
        };
        let this = receiver.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                this.connections.accepted.fetch_add(1, Ordering::SeqCst);
                let (this, acceptor) = (this.clone(), acceptor.clone());
                tokio::spawn(async move { this.connection(stream, acceptor).await });
            }
        });
        receiver
    }

    async fn connection(&self, stream: TcpStream, acceptor: Option<TlsAcceptor>) {
        self.connections.open.fetch_add(1, Ordering::SeqCst);
        match acceptor {
            None => serve(stream, &self.reply, &self.arrived).await,
            Some(acceptor) => {
                if let Ok(stream) = acceptor.accept(stream).await {
                    serve(stream, &self.reply, &self.arrived).await;
                }
            }
        }
        self.connections.open.fetch_sub(1, Ordering::SeqCst);
    }

    /// Where it listens, without TLS.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Its reply from the next request on.
    pub fn reply(&self, reply: Reply) {
        *self.reply.lock().expect("no panic") = reply;
    }

    /// All that arrived so far.
    pub fn arrived(&self) -> Vec<ReceivedRequest> {
        self.arrived.lock().expect("no panic").clone()
    }

    /// How many connections it has accepted.
    pub fn accepted(&self) -> usize {
        self.connections.accepted.load(Ordering::SeqCst)
    }

    /// How many of them are open.
    pub fn open(&self) -> usize {
        self.connections.open.load(Ordering::SeqCst)
    }

    /// Waits until all of them are closed.
    pub async fn all_closed(&self) {
        let closed = || async { self.open() == 0 };
        super::eventually("the connections are closed", closed).await;
    }
}

fn tls_acceptor() -> TlsAcceptor {
    let read = "the files of the tests are valid";
    let certificates = CertificateDer::pem_file_iter(tls_file("server.pem")).expect(read);
    let certificates = certificates.collect::<Result<_, _>>().expect(read);
    let key = PrivateKeyDer::from_pem_file(tls_file("server.key")).expect(read);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect(read)
        .with_no_client_auth()
        .with_single_cert(certificates, key);
    TlsAcceptor::from(Arc::new(config.expect(read)))
}

async fn serve<S>(mut stream: S, replies: &Mutex<Reply>, kept: &Mutex<Vec<ReceivedRequest>>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let reply_now = || replies.lock().expect("no panic").clone();
    if let Reply::Greeting = reply_now() {
        let _ = stream.write_all(b"220 mail.example ESMTP\r\n").await;
    }
    let mut times = 0;
    while let Some(request) = read(&mut stream).await {
        let at = {
            let mut kept = kept.lock().expect("no panic");
            kept.push(request);
            kept.len() - 1
        };
        times += 1;
        let mut reply = reply_now();
        while let Reply::Held = reply {
            // The test says when it is over.
            tokio::time::sleep(Duration::from_millis(10)).await;
            reply = reply_now();
        }
        let sent = match &reply {
            Reply::Status(status, headers) => respond(&mut stream, *status, headers).await,
            Reply::Last(status) => {
                let _ = respond(&mut stream, *status, "").await;
                return;
            }
            Reply::Times(most) if times > *most => return,
            Reply::Times(_) => respond(&mut stream, 200, "").await,
            Reply::HalfLater if times > 1 => {
                let _ = stream.write_all(b"HTTP/1.1 200 x\r\nContent-").await;
                return;
            }
            Reply::HalfLater => respond(&mut stream, 200, "").await,
            Reply::After(time) | Reply::Late(_, time) => {
                // The receiver is slow.
                tokio::time::sleep(*time).await;
                let status = match &reply {
                    Reply::Late(status, _) => *status,
                    _ => 200,
                };
                respond(&mut stream, status, "").await
            }
            Reply::Fitful { failing, silent } => {
                if rand::random_range(0..2_000) < *silent {
                    std::future::pending::<()>().await;
                }
                // An attempt takes long enough to be killed in.
                tokio::time::sleep(Duration::from_millis(10)).await;
                match (
                    rand::random_range(0..100) < *failing,
                    rand::random_range(0..3),
                ) {
                    (false, _) => {
                        kept.lock().expect("no panic")[at].is_taken = true;
                        respond(&mut stream, 200, "").await
                    }
                    (true, 0) => respond(&mut stream, 500, "").await,
                    (true, 1) => {
                        let _ = stream.write_all(b"HTTP/1.1 200 x\r\nContent-").await;
                        return;
                    }
                    (true, _) => return,
                }
            }
            Reply::Bytes(bytes) => stream.write_all(bytes.as_bytes()).await,
            Reply::BytesThenEnd(bytes) => {
                let _ = stream.write_all(bytes.as_bytes()).await;
                return;
            }
            Reply::Drip => drip(&mut stream).await,
            Reply::Flood => flood(&mut stream).await,
            Reply::Silence | Reply::Held => Ok(()),
            Reply::HangUp | Reply::Greeting => return,
        };
        let flushed = stream.flush().await;
        if sent.and(flushed).is_err() {
            return;
        }
    }
}

async fn respond<S: AsyncWrite + Unpin>(
    stream: &mut S,
    status: u16,
    headers: &str,
) -> io::Result<()> {
    let end = match status {
        204 | 304 => "\r\n",
        _ => "Content-Length: 2\r\n\r\nok",
    };
    let head = format!("HTTP/1.1 {status} x\r\n{headers}{end}");
    stream.write_all(head.as_bytes()).await?;
    stream.flush().await
}

/// The reply that never ends, byte by byte.
async fn drip<S: AsyncWrite + Unpin>(stream: &mut S) -> io::Result<()> {
    stream
        .write_all(b"HTTP/1.1 200 x\r\nContent-Length: 1000\r\n\r\n")
        .await?;
    loop {
        stream.write_all(b".").await?;
        stream.flush().await?;
        // It drips.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn flood<S: AsyncWrite + Unpin>(stream: &mut S) -> io::Result<()> {
    stream
        .write_all(b"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await?;
    let chunk = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
    loop {
        stream.write_all(chunk.as_bytes()).await?;
    }
}

async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> Option<ReceivedRequest> {
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
                return Some(ReceivedRequest {
                    line,
                    headers,
                    body,
                    place: ARRIVED.fetch_add(1, Ordering::SeqCst),
                    is_taken: false,
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
    let resolver = resolver(move |host| {
        noted.lock().expect("no panic").push(host.to_owned());
        resolve(host)
    });
    (Egress::new(resolver, &TrustedRoots::public()), resolved)
}

/// Egress whose names have the addresses that `resolve` returns, and which trusts [`Receiver::start_with_tls`].
pub fn trusting_egress(resolve: impl Fn(&str) -> Vec<IpAddr> + Send + Sync + 'static) -> Egress {
    let roots = TrustedRoots::of_file(&tls_file("ca.pem")).expect("a certificate");
    Egress::new(resolver(resolve), &roots)
}

fn resolver(resolve: impl Fn(&str) -> Vec<IpAddr> + Send + Sync + 'static) -> Resolver {
    Resolver::of(move |host| {
        let found = resolve(&host);
        async move {
            match found.is_empty() {
                true => Err(io::ErrorKind::NotFound.into()),
                false => Ok(found),
            }
        }
    })
}

/// Egress on which every name that ends with `.example` has a public address, and no other name exists.
pub fn public_names() -> Egress {
    let resolve = |host: &str| match host.ends_with(".example") {
        true => vec![IpAddr::from([93, 184, 216, 34])],
        false => Vec::new(),
    };
    egress(resolve).0
}
