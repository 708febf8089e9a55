//! API keys: the text that a client presents, what may be shown of it, and the hash that is kept.
//!
//! A key reads `<vendor prefix><partition><public part><secret part>`. The partition and the public part name the record, so a
//! presented key leads to its record without an index; only the SHA-256 of the whole text is stored.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::domain::ids::{Partition, RandomPart, ascii, base64, concat, random_id};

/// Characters of the public part, which the id has too.
const PUBLIC_CHARS: usize = 12;
/// Characters of the secret part: 24 random bytes, base64url.
const SECRET_CHARS: usize = 32;
const PARTITION_CHARS: usize = 3;

random_id! {
    /// Names an API key without revealing it: `key_05f_` and 12 lower-case letters and digits.
    KeyId: "key", RandomPart::SHORT
}

/// SHA-256 of a whole API key, 43 characters base64url: what the store keeps and the scripts compare. `{:?}` does not show it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KeyHash([u8; 43]);

impl KeyHash {
    /// The hash of a whole key.
    pub fn of(key: &str) -> Self {
        Self::of_digest(&Sha256::digest(key))
    }

    /// The hash of a key with this digest.
    pub fn of_digest(digest: &[u8]) -> Self {
        Self(base64(digest))
    }

    /// Reads the text of a hash.
    pub fn parse(text: &str) -> Option<Self> {
        text.as_bytes().try_into().ok().map(Self)
    }

    /// The text of the hash.
    pub fn as_str(&self) -> &str {
        ascii(&self.0)
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash(redacted)")
    }
}

/// The text of an API key as a client holds it. `{:?}` does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKeyText {
    text: String,
    prefix_chars: usize,
    key_id: KeyId,
}

impl ApiKeyText {
    /// Accepts a key with any of these vendor prefixes. `None` for anything else: such a text is no key of this deployment.
    pub fn parse(text: &str, vendor_prefixes: &[&str]) -> Option<Self> {
        Some(Self {
            key_id: Self::id_of(text, vendor_prefixes)?,
            text: text.to_owned(),
            prefix_chars: text.len() - SECRET_CHARS,
        })
    }

    /// The id of the record of such a key.
    pub fn id_of(text: &str, vendor_prefixes: &[&str]) -> Option<KeyId> {
        let mut prefixes = vendor_prefixes.iter();
        prefixes.find_map(|prefix| id_after(text, prefix))
    }

    /// A new random key whose record belongs into `partition`.
    pub fn generate(vendor_prefix: &str, partition: Partition) -> Self {
        let key_id = KeyId::mint(partition);
        let public = &key_id.as_str()["key_000_".len()..];
        let secret = BASE64_URL_SAFE_NO_PAD.encode(rand::random::<[u8; 24]>());
        Self {
            text: format!("{vendor_prefix}{partition}{public}{secret}"),
            prefix_chars: vendor_prefix.len() + PARTITION_CHARS + PUBLIC_CHARS,
            key_id,
        }
    }

    /// The id of the key's record.
    pub fn key_id(&self) -> &KeyId {
        &self.key_id
    }

    /// The part that may be shown: everything before the secret.
    pub fn visible_prefix(&self) -> &str {
        &self.text[..self.prefix_chars]
    }

    /// The digest that the store keeps in place of the key.
    pub fn hash(&self) -> KeyHash {
        KeyHash::of(&self.text)
    }

    /// The whole key. Shown once, in the answer that creates it.
    pub fn expose(&self) -> &str {
        &self.text
    }
}

fn id_after(text: &str, vendor_prefix: &str) -> Option<KeyId> {
    let rest = text.strip_prefix(vendor_prefix)?;
    let secret_charset = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if rest.len() != PARTITION_CHARS + PUBLIC_CHARS + SECRET_CHARS || !rest.is_ascii() {
        return None;
    }
    let (partition, rest) = rest.split_at(PARTITION_CHARS);
    let (public, secret) = rest.split_at(PUBLIC_CHARS);
    if !secret.bytes().all(secret_charset) {
        return None;
    }
    KeyId::parse(&concat(&["key_", partition, "_", public]))
}

impl fmt::Debug for ApiKeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKeyText({}, redacted)", self.key_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIXES: &[&str] = &["sk_live_", "sk_test_"];

    #[test]
    fn a_generated_key_reads_back_and_names_its_record() {
        let partition = Partition::new(0x05f).unwrap();
        let key = ApiKeyText::generate("sk_live_", partition);
        assert_eq!(key.expose().len(), 8 + 3 + 12 + 32);
        assert!(key.key_id().as_str().starts_with("key_05f_"));
        assert_eq!(key.key_id().partition(), partition);
        assert_eq!(key.visible_prefix(), &key.expose()[..23]);
        assert_eq!(key.hash().as_str().len(), 43);
        assert_eq!(ApiKeyText::parse(key.expose(), PREFIXES).unwrap(), key);
        assert_eq!(
            KeyId::parse(key.key_id().as_str()).as_ref(),
            Some(key.key_id())
        );
        assert_ne!(ApiKeyText::generate("sk_live_", partition), key);
    }

    #[test]
    fn debug_shows_neither_the_secret_nor_the_text() {
        let key = ApiKeyText::generate("sk_live_", Partition::new(1).unwrap());
        let secret = &key.expose()[23..];
        assert!(!format!("{key:?}").contains(secret));
        assert!(!format!("{:?}", key.hash()).contains(key.hash().as_str()));
    }

    #[test]
    fn other_texts_are_not_keys() {
        let good = format!("sk_live_05fabcdefghij12{}", "A".repeat(32));
        assert!(ApiKeyText::parse(&good, PREFIXES).is_some());
        for text in [
            String::new(),
            good.replace("sk_live_", "pk_live_"),
            good.replace("05f", "7ff"),
            good.replace("05f", "05F"),
            good.replace("abc", "ABC"),
            format!("{good}A"),
            good[..good.len() - 1].to_owned(),
            format!("{}é", &good[..good.len() - 2]),
            format!("{}\0", &good[..good.len() - 1]),
            format!(" {good}"),
        ] {
            assert!(ApiKeyText::parse(&text, PREFIXES).is_none(), "{text}");
        }
    }
}
