//! Why a connection fails that uses TLS where the server does not, or the reverse: by itself, the one only times out and the
//! other is reset.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use redis::{ConnectionAddr, ConnectionInfo, RedisError};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long the server may take to show which it speaks.
const LIMIT: Duration = Duration::from_millis(250);

const WITHOUT_TLS: &str =
    "the server answers without TLS: the URL must begin with redis, not rediss";
const WITH_TLS: &str = "the server answers with TLS: the URL must begin with rediss, not redis";

/// The first bytes of records of TLS: an alert, a handshake.
const TLS_RECORDS: [u8; 2] = [0x15, 0x16];

/// The mismatch that explains a failure to connect, if it is one.
pub(crate) async fn explain(info: &ConnectionInfo, failure: &RedisError) -> Option<&'static str> {
    // The server has answered, or there is none.
    if failure.code().is_some() || failure.is_connection_refusal() {
        return None;
    }
    match info.addr() {
        ConnectionAddr::TcpTls { host, port, .. } => {
            let first = first_byte(host, *port, b"PING\r\n").await?;
            b"+-".contains(&first).then_some(WITHOUT_TLS)
        }
        ConnectionAddr::Tcp(host, port) => {
            let first = first_byte(host, *port, &client_hello()?).await?;
            TLS_RECORDS.contains(&first).then_some(WITH_TLS)
        }
        _ => None,
    }
}

/// The first byte of the answer.
async fn first_byte(host: &str, port: u16, question: &[u8]) -> Option<u8> {
    let exchanged = async {
        let mut stream = TcpStream::connect((host, port)).await?;
        stream.write_all(question).await?;
        stream.read_u8().await
    };
    let first: io::Result<u8> = timeout(LIMIT, exchanged).await.ok()?;
    first.ok()
}

/// The first bytes of a TLS client. It trusts nobody, since it does not continue.
fn client_hello() -> Option<Vec<u8>> {
    let config = ClientConfig::builder()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from("redis").ok()?;
    let mut client = ClientConnection::new(Arc::new(config), name).ok()?;
    let mut hello = Vec::new();
    client.write_tls(&mut hello).ok()?;
    Some(hello)
}
