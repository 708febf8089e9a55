//! Opens a connection to one of the addresses of a target.

use std::io;
use std::net::SocketAddr;

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::admission::Egress;
use super::connection::Connection;
use super::failure::PostError;
use super::stream::Stream;
use super::target::Target;

/// How many of a target's addresses are tried.
const TRIED_MAX: usize = 5;

impl Egress {
    /// Connects to the first address that accepts. Each one gets an equal share of the time that is left, so that one that
    /// never answers does not use up the time of the others.
    pub(super) async fn open(&self, target: &Target, by: Instant) -> Result<Connection, PostError> {
        let mut failure = PostError::Unreachable;
        let tried = target.addresses.len().min(TRIED_MAX);
        for (shares, address) in (1..=tried).rev().zip(&target.addresses) {
            let now = Instant::now();
            let share = by.saturating_duration_since(now) / u32::try_from(shares).unwrap_or(1);
            let opened = timeout_at(now + share, self.open_to(target, *address)).await;
            match opened.unwrap_or(Err(PostError::ConnectTimeout)) {
                Ok(connection) => return Ok(connection),
                // The other addresses have the same certificate.
                Err(PostError::Tls) => return Err(PostError::Tls),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    async fn open_to(&self, target: &Target, address: SocketAddr) -> Result<Connection, PostError> {
        let ticket = self.kept.ticket();
        let stream = TcpStream::connect(address).await;
        let stream = stream.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => PostError::Refused,
            _ => PostError::Unreachable,
        })?;
        let _ = stream.set_nodelay(true);
        let stream = if target.url.is_plain() {
            Stream::Plain(stream)
        } else {
            let name = server_name(target).ok_or(PostError::Tls)?;
            let secured = self.tls.connect(name, stream).await;
            Stream::Secured(Box::new(secured.map_err(|_| PostError::Tls)?))
        };
        Ok(Connection::new(stream, address, ticket))
    }
}

fn server_name(target: &Target) -> Option<ServerName<'static>> {
    match target.url.ip() {
        Some(ip) => Some(ServerName::IpAddress(ip.into())),
        None => ServerName::try_from(target.url.host().trim_end_matches('.').to_owned()).ok(),
    }
}
