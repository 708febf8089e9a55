//! Verification: what an envelope proves, given what is known of its issuer.

use super::envelope::{DEPTH_MAX, id_of, set};
use super::issuers::{Signer, server_hash};
use super::keys::{KeySet, ListedKey, PublicKey};
use super::schema::{self, Artifact, Misfit};
use crate::domain::dialect::Dialect;
use crate::domain::json::Json;
use crate::domain::words::words;

words! {
    /// The result of a verification.
    Disposition: "snake_case" {
        /// The signature holds, and the key was the issuer's when the envelope was issued.
        Authentic,
        /// The signature holds under the key that the envelope names; whose key that is was not asked.
        BindingOnly,
        /// The key set has no key that may have signed it, or more than one.
        SignerAuthorityFailed,
        /// There is no key set, so nothing is known.
        SignerResolutionFailed,
        /// It is no envelope, or not the one that was signed.
        SignatureInvalid,
    }
}

/// The known keys of the issuer.
#[derive(Debug, Clone, Copy)]
pub enum Keys<'a> {
    /// Nothing: no set is named.
    Absent,
    /// Nothing, because the set could not be read.
    Unavailable,
    /// The bytes of a key set.
    Set(&'a [u8]),
}

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// The result.
    pub disposition: Disposition,
    /// Whether the key is the one that was expected, where one was.
    pub pin_matched: Option<bool>,
    /// Why, in a sentence.
    pub reason: String,
}

impl Disposition {
    fn with_reason(self, reason: impl Into<String>) -> Verification {
        Verification {
            disposition: self,
            pin_matched: None,
            reason: reason.into(),
        }
    }
}

/// Verifies the bytes of an envelope. `pin`: the key that is expected to have signed it. `server_id`: the issuer that is expected.
pub fn verify(
    document: &[u8],
    keys: Keys<'_>,
    pin: Option<&PublicKey>,
    server_id: Option<&str>,
) -> Verification {
    let read = match Read::of(document) {
        Ok(read) => read,
        Err(misfit) => return Disposition::SignatureInvalid.with_reason(misfit.to_string()),
    };
    if read.recomputed_id != read.evidence_id {
        let reason = format!(
            "evidence_id is not that of the content, {}",
            read.recomputed_id
        );
        return Disposition::SignatureInvalid.with_reason(reason);
    }
    let set = match keys {
        Keys::Absent => None,
        Keys::Unavailable => Some(Err("the key set could not be read".to_owned())),
        Keys::Set(bytes) => {
            let set = KeySet::parse(bytes, read.dialect);
            Some(set.map_err(|error| format!("the key set could not be read: {error}")))
        }
    };
    let mut found = match &read.signer {
        Signer::Raw(key) => read.by_raw_key(key, set),
        Signer::Listed {
            server_hash, kid, ..
        } => read.by_listed_key(server_hash, kid, set, pin),
    };
    let foreign = server_id.is_some_and(|expected| expected != read.server_id);
    if foreign && found.disposition != Disposition::SignatureInvalid {
        let reason = format!("server_id is `{}`", read.server_id);
        found = Disposition::SignerAuthorityFailed.with_reason(reason);
    }
    if let (Signer::Raw(key), Some(pin)) = (&read.signer, pin) {
        found.pin_matched = Some(key == pin);
    }
    found
}

/// The dialect of an envelope, if it is one.
pub fn dialect_of(document: &[u8]) -> Option<Dialect> {
    let envelope = Json::parse_to_depth(document, DEPTH_MAX).ok()?;
    dialect_of_schema(envelope.member("schema_version")?.as_text()?)
}

fn dialect_of_schema(schema: &str) -> Option<Dialect> {
    let mut dialects = Dialect::ALL.into_iter();
    dialects.find(|dialect| dialect.words().evidence_schema == schema)
}

/// An envelope whose shape is right.
struct Read {
    dialect: Dialect,
    signer: Signer,
    server_id: String,
    issued_at_ms: i64,
    evidence_id: String,
    recomputed_id: String,
    signature: String,
    signed: String,
}

impl Read {
    fn of(document: &[u8]) -> Result<Self, Misfit> {
        let wrong = |reason: String| Misfit::new("document", reason);
        let sent = Json::parse_to_depth(document, DEPTH_MAX)
            .map_err(|error| wrong(format!("is no JSON: {error}")))?;
        // It would be displayed with other digits than those that were signed.
        if let Some(literal) = sent.first_rounded() {
            return Err(wrong(format!(
                "holds the integer {literal}, which its canonical form rounds"
            )));
        }
        // The canonical form is what was signed, so it is what is judged.
        let envelope = Json::parse_to_depth(sent.rfc8785().as_bytes(), DEPTH_MAX)
            .map_err(|error| wrong(format!("has no canonical form: {error}")))?;
        Self::of_canonical(envelope)
    }

    fn of_canonical(mut envelope: Json) -> Result<Self, Misfit> {
        schema::check_envelope(&envelope)?;
        let text = |name: &str| {
            let text = envelope.member(name).and_then(Json::as_text);
            text.unwrap_or_default().to_owned()
        };
        let dialect = dialect_of_schema(&text("schema_version"));
        let dialect = dialect.ok_or_else(|| Misfit::new("schema_version", "is unknown"))?;
        let artifact = Artifact::parse(&text("artifact_type"));
        let artifact = artifact.ok_or_else(|| Misfit::new("artifact_type", "is unknown"))?;
        let server_id = text("server_id");
        if !is_absolute_uri(&server_id) {
            return Err(Misfit::new("server_id", "is no absolute URI"));
        }
        let signer = Signer::parse(&text("signer_did"));
        let signer = signer.filter(|signer| match signer {
            Signer::Raw(_) => true,
            Signer::Listed { dialect: of, .. } => *of == dialect,
        });
        let signer = signer.ok_or_else(|| Misfit::new("signer_did", "names no key"))?;
        let payload = envelope.member("payload");
        schema::check_payload(artifact, payload.unwrap_or(&Json::Null))?;
        let issued_at_ms = envelope.member("issued_at_ms").and_then(Json::as_integer);
        let issued_at_ms = issued_at_ms.unwrap_or_default();
        let (evidence_id, signature) = (text("evidence_id"), text("signature"));
        set(&mut envelope, "signature", "");
        let signed = envelope.rfc8785();
        set(&mut envelope, "evidence_id", "");
        Ok(Self {
            dialect,
            signer,
            server_id,
            issued_at_ms,
            evidence_id,
            recomputed_id: id_of(&envelope),
            signature,
            signed,
        })
    }

    fn holds_under(&self, key: &PublicKey) -> bool {
        key.verifies(self.signed.as_bytes(), &self.signature)
    }

    fn by_raw_key(&self, key: &PublicKey, set: Option<Result<KeySet, String>>) -> Verification {
        use Disposition as D;
        if !self.holds_under(key) {
            return D::SignatureInvalid
                .with_reason("the signature is not that of the key that it names");
        }
        let set = match set {
            None => {
                return D::BindingOnly
                    .with_reason("signed by the key that it names; no key set says whose it is");
            }
            Some(Err(reason)) => return D::SignerResolutionFailed.with_reason(reason),
            Some(Ok(set)) => set,
        };
        let covering = self.covering(&set, |listed| listed.key == *key);
        self.authority(&covering, "this key")
    }

    fn by_listed_key(
        &self,
        hash: &str,
        kid: &str,
        set: Option<Result<KeySet, String>>,
        pin: Option<&PublicKey>,
    ) -> Verification {
        use Disposition as D;
        let set = match set {
            Some(Ok(set)) => set,
            Some(Err(reason)) => {
                return Verification {
                    pin_matched: pin.map(|pin| self.holds_under(pin)),
                    ..D::SignerResolutionFailed.with_reason(reason)
                };
            }
            None => return self.by_pin(pin),
        };
        let covering = self.covering(&set, |listed| listed.kid == kid);
        let named: Vec<_> = set.keys.iter().filter(|listed| listed.kid == kid).collect();
        // One key is judged even where its window does not cover the time: a forgery is more than a mistake of dates.
        if let ([listed], _) | (_, [listed]) = (&covering[..], &named[..])
            && !self.holds_under(&listed.key)
        {
            return D::SignatureInvalid
                .with_reason(format!("the signature is not that of the key `{kid}`"));
        }
        if server_hash(&self.server_id) != hash {
            return D::SignerAuthorityFailed
                .with_reason("signer_did is bound to another server_id");
        }
        let mut found = self.authority(&covering, &format!("the key `{kid}`"));
        if let ([listed], Some(pin)) = (&covering[..], pin) {
            found.pin_matched = Some(listed.key == *pin);
        }
        found
    }

    /// Without a set, a key that was learned earlier can be tried.
    fn by_pin(&self, pin: Option<&PublicKey>) -> Verification {
        use Disposition as D;
        match pin {
            Some(pin) if self.holds_under(pin) => Verification {
                pin_matched: Some(true),
                ..D::BindingOnly.with_reason("signed by the pinned key")
            },
            Some(_) => Verification {
                pin_matched: Some(false),
                ..D::SignerResolutionFailed
                    .with_reason("not signed by the pinned key, and its key needs a key set")
            },
            None => D::SignerResolutionFailed.with_reason("its key needs a key set"),
        }
    }

    fn covering<'s>(
        &self,
        set: &'s KeySet,
        is_it: impl Fn(&ListedKey) -> bool,
    ) -> Vec<&'s ListedKey> {
        let covering = set
            .keys
            .iter()
            .filter(|listed| listed.covers(self.issued_at_ms));
        covering.filter(|listed| is_it(listed)).collect()
    }

    fn authority(&self, covering: &[&ListedKey], key: &str) -> Verification {
        use Disposition as D;
        let at_ms = self.issued_at_ms;
        match covering {
            [_] => D::Authentic.with_reason(format!(
                "signed by {key} of the key set, which was valid at {at_ms}"
            )),
            [] => D::SignerAuthorityFailed
                .with_reason(format!("the key set does not have {key} at {at_ms}")),
            _ => D::SignerAuthorityFailed
                .with_reason(format!("the key set has {key} more than once at {at_ms}")),
        }
    }
}

/// A scheme, a colon, and printable ASCII. No parser of URLs is asked: each corrects something else.
fn is_absolute_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else {
        return false;
    };
    let mut scheme = scheme.bytes();
    let has_scheme = scheme
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic())
        && scheme.all(|byte| byte.is_ascii_alphanumeric() || b"+.-".contains(&byte));
    has_scheme && !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests;
