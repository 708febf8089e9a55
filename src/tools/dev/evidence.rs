//! Evidence of the development stack. Its key lies in the data folder, because Redis keeps what the key is registered for.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use secrecy::{ExposeSecret, SecretString};
use tracing::warn;

use super::folder::Folder;
use crate::evidence::SigningKey;

/// The files of the seed, and of the server id: the address of the first start.
const SEED_FILE: &str = "evidence-seed";
const SERVER_FILE: &str = "evidence-server-id";

/// Signs the evidence of the stack.
pub(super) struct Signer {
    /// The key pair.
    pub(super) key: SigningKey,
    server_id: String,
}

impl Signer {
    /// Reads the signer that an earlier start stored in the folder, or creates one.
    pub(super) fn open(folder: &Folder, address: SocketAddr) -> io::Result<Self> {
        let seed = folder.secret(SEED_FILE, || SigningKey::generate().0)?;
        let key = SigningKey::parse(seed.expose_secret()).ok_or_else(|| {
            let file = folder.path().join(SEED_FILE);
            io::Error::other(format!("{}: it holds no seed", file.display()))
        })?;
        let kept = folder.secret(SERVER_FILE, || SecretString::from(base(address)))?;
        let server_id = kept.expose_secret().to_owned();
        Ok(Self { key, server_id })
    }

    /// Warns where evidence names another address than the one of this start.
    pub(super) fn warn_of_another_address(&self, address: SocketAddr) {
        let (named, own) = (&self.server_id, base(address));
        if *named != own {
            warn!(
                "evidence names {named}, where this stack listened at its first start; read it below {own}"
            );
        }
    }

    /// Flags of the API. The key signs from the beginning of time on, since it is the first one.
    pub(super) fn flags(&self) -> [String; 3] {
        [
            format!("--evidence-server-id={}", self.server_id),
            format!("--evidence-public-key={}", self.key.public().hex()),
            "--evidence-nbf-ms=0".to_owned(),
        ]
    }
}

/// The base URL at which this machine reaches an API that listens there.
fn base(mut address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    format!("http://{address}/v1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::ServerId;

    #[test]
    fn the_base_url_is_on_this_machine() {
        for (address, expected) in [
            ("127.0.0.1:7878", "http://127.0.0.1:7878/v1"),
            ("0.0.0.0:80", "http://127.0.0.1:80/v1"),
            ("[::]:7878", "http://[::1]:7878/v1"),
        ] {
            let base = base(address.parse().expect("an address"));
            assert_eq!(base, expected);
            assert!(ServerId::parse(&base).is_ok(), "{base}");
        }
    }
}
