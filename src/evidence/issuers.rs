//! The issuer of envelopes: a deployment by its public address, and the name of its signing key. The windows of a deployment's keys
//! follow one another, so that at any time one key signs or none.

use std::fmt;

use sha2::{Digest, Sha256};
use url::Url;

use super::keys::{KeySet, ListedKey, PublicKey};
use crate::domain::dialect::Dialect;
use crate::domain::ids::{hex, is_hex};

/// The public base of a deployment's API, `/v1` included. It is compared byte for byte and never normalized.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerId(String);

const NOT_ABSOLUTE: &str = "it must be an absolute http or https URL";
const MORE_THAN_A_PATH: &str = "it must have no user, query or fragment";
const NOT_V1: &str = "its path must end in /v1, without a slash behind it";

impl ServerId {
    /// Reads the setting of a deployment.
    ///
    /// # Errors
    /// Why it could not be the base of its URLs.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let url = Url::parse(text).map_err(|_| NOT_ABSOLUTE)?;
        let absolute = ["http", "https"].contains(&url.scheme()) && url.has_host();
        // The parser drops white space and corrects what it can, which would be another text than the URL that works.
        if !absolute
            || !text
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'\\')
        {
            return Err(NOT_ABSOLUTE);
        }
        if text.contains(['?', '#', '@']) {
            return Err(MORE_THAN_A_PATH);
        }
        if !url.path().ends_with("/v1") || !text.ends_with("/v1") {
            return Err(NOT_V1);
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

/// How envelopes name the key of their signature. A key that is registered keeps its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SignerForm {
    /// The public key itself, so that the signature can be checked offline
    Raw,
    /// A DID, which names the key by its id in the key set of the server
    #[value(name = "did")]
    Listed,
}

/// The issuers of a deployment, one for each of its keys, in the order of their windows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuers {
    dialect: Dialect,
    server_id: ServerId,
    form: SignerForm,
    set: KeySet,
}

impl Issuers {
    /// With these keys, present, past and future ones.
    ///
    /// # Errors
    /// Why it would be open which key signs, or signed.
    pub fn new(
        dialect: Dialect,
        server_id: ServerId,
        form: SignerForm,
        mut keys: Vec<ListedKey>,
    ) -> Result<Self, String> {
        keys.sort_by_key(|listed| listed.from_ms);
        for (at, listed) in keys.iter().enumerate() {
            let (kid, mut earlier) = (&listed.kid, keys[..at].iter());
            if earlier.clone().any(|other| other.kid == *kid) {
                return Err(format!("two keys have the id `{kid}`"));
            }
            if let Some(other) = earlier.find(|other| other.key == listed.key) {
                return Err(format!(
                    "the keys `{}` and `{kid}` are the same key",
                    other.kid
                ));
            }
            if listed
                .until_ms
                .is_some_and(|until_ms| until_ms <= listed.from_ms)
            {
                return Err(format!(
                    "the window of the key `{kid}` ends before it begins"
                ));
            }
        }
        for pair in keys.windows(2) {
            if pair[0].covers(pair[1].from_ms) {
                let [one, next] = [&pair[0].kid, &pair[1].kid];
                return Err(format!(
                    "the windows of the keys `{one}` and `{next}` overlap"
                ));
            }
        }
        Ok(Self {
            dialect,
            server_id,
            form,
            set: KeySet { keys },
        })
    }

    /// The issuer of a key that is new.
    pub fn issuer(&self, listed: &ListedKey) -> Issuer {
        let [issuer, _] = self.both_issuers(listed);
        issuer
    }

    /// The same, and under the other name, which the key has if it was registered before the configured form was changed.
    pub fn both_issuers(&self, listed: &ListedKey) -> [Issuer; 2] {
        let by_id = Signer::listed(self.dialect, &self.server_id, &listed.kid);
        let mut issuers = [Signer::Raw(listed.key), by_id].map(|signer| Issuer {
            dialect: self.dialect,
            server_id: self.server_id.clone(),
            signer,
        });
        if self.form == SignerForm::Listed {
            issuers.reverse();
        }
        issuers
    }

    /// The key of a registered issuer, whose window starts at `from_ms`; `None` where it is not configured.
    pub fn listed(&self, issuer: &Issuer, from_ms: i64) -> Option<&ListedKey> {
        let is_it = |listed: &&ListedKey| {
            let [own, other] = self.both_issuers(listed);
            *issuer == own || (*issuer == other && listed.from_ms == from_ms)
        };
        self.set.keys.iter().find(is_it)
    }

    /// The public base of the deployment.
    pub fn server_id(&self) -> &ServerId {
        &self.server_id
    }

    /// The dialect of their words.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The keys as they are published, in the order of their windows.
    pub fn key_set(&self) -> &KeySet {
        &self.set
    }
}

#[cfg(test)]
mod tests;
