//! The issuer of envelopes: a deployment by its public address, and the name of its signing key.

use std::fmt;

use sha2::{Digest, Sha256};
use url::Url;

use super::key::{PublicKey, is_hex};
use crate::domain::dialect::Dialect;
use crate::domain::ids::hex;

/// The public base of a deployment's API, `/v1` included. It is compared byte for byte and never normalised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerId(String);

/// Why a text is no server id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ServerIdError {
    /// Not a URL of this kind.
    #[error("it must be an absolute http or https URL")]
    NotAbsolute,
    /// Something follows the path.
    #[error("it must have no user, query or fragment")]
    MoreThanAPath,
    /// The path is another.
    #[error("its path must end in /v1, without a slash behind it")]
    NotV1,
}

impl ServerId {
    /// Reads the setting of a deployment.
    ///
    /// # Errors
    /// [`ServerIdError`] for what could not be the base of its URLs.
    pub fn parse(text: &str) -> Result<Self, ServerIdError> {
        let url = Url::parse(text).map_err(|_| ServerIdError::NotAbsolute)?;
        let absolute = ["http", "https"].contains(&url.scheme()) && url.has_host();
        // The parser drops white space and corrects what it can, which would be another text than the URL that works.
        if !absolute
            || !text
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'\\')
        {
            return Err(ServerIdError::NotAbsolute);
        }
        if text.contains(['?', '#', '@']) {
            return Err(ServerIdError::MoreThanAPath);
        }
        if !url.path().ends_with("/v1") || !text.ends_with("/v1") {
            return Err(ServerIdError::NotV1);
        }
        Ok(Self(text.to_owned()))
    }

    /// As it is signed.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Where an envelope can be read.
    pub fn url_of(&self, evidence_id: &str) -> String {
        format!("{}/evidence/{evidence_id}", self.0)
    }
}

/// The origin of an envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    /// Decides the vendor's words in the envelope.
    pub dialect: Dialect,
    /// Of the deployment.
    pub server_id: ServerId,
    /// Names the signing key.
    pub signer: Signer,
}

/// How an envelope names the key of its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signer {
    /// By the public key itself.
    Raw(PublicKey),
    /// By its id in the key set of a server.
    Listed {
        /// The dialect of the name.
        dialect: Dialect,
        /// SHA-256 of the server id in lower-case hexadecimal digits.
        server_hash: String,
        /// Id of the key.
        kid: String,
    },
}

impl Signer {
    /// A name by the key set of a server.
    pub fn listed(dialect: Dialect, server_id: &ServerId, kid: &str) -> Self {
        Self::Listed {
            dialect,
            server_hash: server_hash(server_id.as_str()),
            kid: kid.to_owned(),
        }
    }

    /// Reads `signer_did`.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(key) = PublicKey::parse(text) {
            return Some(Self::Raw(key));
        }
        let (method, rest) = text.strip_prefix("did:")?.split_once(':')?;
        let (server_hash, kid) = rest.split_once('#')?;
        let mut dialects = Dialect::ALL.into_iter();
        let dialect = dialects.find(|dialect| dialect.words().did_method == method)?;
        (is_hex(server_hash, 64) && !kid.is_empty()).then(|| Self::Listed {
            dialect,
            server_hash: server_hash.to_owned(),
            kid: kid.to_owned(),
        })
    }
}

impl fmt::Display for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Raw(key) => f.write_str(&key.hex()),
            Self::Listed {
                dialect,
                server_hash,
                kid,
            } => write!(f, "did:{}:{server_hash}#{kid}", dialect.words().did_method),
        }
    }
}

/// The hash by which the name of a key is bound to a server: of the exact bytes of its id.
pub(super) fn server_hash(server_id: &str) -> String {
    hex(&Sha256::digest(server_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_id_is_the_base_of_the_api() {
        use ServerIdError::{MoreThanAPath, NotAbsolute, NotV1};
        for good in [
            "https://a.example/v1",
            "http://127.0.0.1:7878/v1",
            "https://a.example/x/v1",
        ] {
            assert_eq!(ServerId::parse(good).map(|id| id.0), Ok(good.to_owned()));
        }
        for (bad, error) in [
            ("", NotAbsolute),
            ("a.example/v1", NotAbsolute),
            ("ftp://a.example/v1", NotAbsolute),
            ("https:///v1 ", NotAbsolute),
            (" https://a.example/v1", NotAbsolute),
            ("https://a.example/v1\n", NotAbsolute),
            ("https://a.example\\v1", NotAbsolute),
            ("https://ä.example/v1", NotAbsolute),
            ("https://a.example/v1?x", MoreThanAPath),
            ("https://a.example/#/v1", MoreThanAPath),
            ("https://u:p@a.example/v1", MoreThanAPath),
            ("https://a.example/v1/", NotV1),
            ("https://a.example", NotV1),
            ("https://a.example/v2", NotV1),
            ("https://a.example/xv1", NotV1),
        ] {
            assert_eq!(ServerId::parse(bad), Err(error), "{bad}");
        }
    }

    #[test]
    fn a_trailing_slash_makes_another_server() {
        let hash = "6b62ee720df914391f7cba8301004d7729c3303ba4cf8ca282044273f00d65b4";
        assert_eq!(server_hash("https://authority.example.com/v1"), hash);
        let other = "741243bfd5615d59ad6309b91d82739b8eabfda90acd3d992e7a538469ee53f4";
        assert_eq!(server_hash("https://authority.example.com/v1/"), other);
    }

    #[test]
    fn a_signer_reads_back_in_both_dialects() {
        let server = ServerId::parse("https://a.example/v1").expect("a server id");
        for dialect in Dialect::ALL {
            let signer = Signer::listed(dialect, &server, "k#1");
            assert_eq!(Signer::parse(&signer.to_string()), Some(signer));
        }
        let hash = server_hash(server.as_str());
        for bad in [
            String::new(),
            format!("did:web:{hash}#k"),
            format!("did:service:{hash}"),
            format!("did:service:{hash}#"),
            format!("did:service:{}#k", hash.to_uppercase()),
        ] {
            assert_eq!(Signer::parse(&bad), None, "{bad}");
        }
    }
}
