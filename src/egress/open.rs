//! Opens a connection to one of a receiver's addresses.

use std::net::SocketAddr;

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::admission::Egress;
use super::connection::PostError;
use super::connection::{ByteStream, Connection};
use super::url::AdmittedUrl;

/// How many of a receiver's addresses are tried.
const TRIED_MAX: usize = 5;

impl Egress {
    /// Connects to the first address that accepts. Each one gets an equal share of the time that is left, so that one that
    /// never answers does not use up the time of the others.
    pub(super) async fn open(
        &self,
        url: &AdmittedUrl,
        by: Instant,
    ) -> Result<Connection, PostError> {
        let tried = url.addresses.len().min(TRIED_MAX);
        for (shares, address) in (1..=tried).rev().zip(&url.addresses) {
            let now = Instant::now();
            let share = by.saturating_duration_since(now) / u32::try_from(shares).unwrap_or(1);
            let opened = timeout_at(now + share, self.open_to(url, *address)).await;
            match opened {
                Ok(Ok(connection)) => return Ok(connection),
                // The other addresses have the same certificate.
                Ok(Err(PostError::Tls)) => return Err(PostError::Tls),
                Ok(Err(_)) | Err(_) => {}
            }
        }
        Err(PostError::Unreachable)
    }

    async fn open_to(
        &self,
        url: &AdmittedUrl,
        address: SocketAddr,
    ) -> Result<Connection, PostError> {
        let ticket = self.pool.ticket();
        let stream = TcpStream::connect(address).await;
        let stream = stream.map_err(|_| PostError::Unreachable)?;
        let _ = stream.set_nodelay(true);
        let stream: Box<dyn ByteStream> = if url.url.is_plain() {
            Box::new(stream)
        } else {
            let name = server_name(url).ok_or(PostError::Tls)?;
            let secured = self.tls.connect(name, stream).await;
            Box::new(secured.map_err(|_| PostError::Tls)?)
        };
        Ok(Connection::new(stream, address, ticket))
    }
}

fn server_name(url: &AdmittedUrl) -> Option<ServerName<'static>> {
    match url.url.ip() {
        Some(ip) => Some(ServerName::IpAddress(ip.into())),
        None => ServerName::try_from(url.url.host().trim_end_matches('.').to_owned()).ok(),
    }
}
