//! Secrets at rest: AES-256-GCM under a key that the store does not have.
//!
//! A sealed text reads `enc:<key id>:<base64 of nonce, ciphertext and tag>`. What the secret belongs to is authenticated
//! with it, so that a sealed text cannot be moved to another record. Several keys may be known: the first seals, each opens,
//! so that a key is replaced by putting a new one in front. A text without `enc:` was stored before there was a key.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

const MARK: &str = "enc:";

/// The keys under which secrets are stored. Never printed.
#[derive(Clone, Default)]
pub struct SealingKeys {
    /// Empty: secrets are stored as they are.
    keys: Arc<[(String, LessSafeKey)]>,
}

/// Why a list of keys is refused. Never holds a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealingKeysError {
    /// An entry is not of the form.
    #[error(
        "entry {0} is not `<id>:<key>` with an id of 1 to 32 of A-Za-z0-9_- and a key of 32 bytes in base64"
    )]
    Entry(usize),
    /// Two keys have one id.
    #[error("two keys have the id `{0}`")]
    Repeated(String),
}

/// Why a sealed text cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// It was sealed under a key that is not known here.
    #[error("it is sealed under the key `{0}`, which is not among the configured ones")]
    UnknownKey(String),
    /// It is not whole, or belongs to another record.
    #[error("it is damaged, or belongs to another record")]
    Damaged,
}

impl SealingKeys {
    /// Reads `<id>:<base64 of 32 bytes>`, comma-separated; the first seals.
    pub fn parse(list: &str) -> Result<Self, SealingKeysError> {
        let mut keys: Vec<(String, LessSafeKey)> = Vec::new();
        for (index, entry) in list.split(',').enumerate() {
            let read = || {
                let (id, key) = entry.trim().split_once(':')?;
                let charset = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
                let named = (1..=32).contains(&id.len()) && id.bytes().all(charset);
                let bytes = BASE64_STANDARD.decode(key).ok().filter(|_| named)?;
                let key = UnboundKey::new(&AES_256_GCM, &bytes).ok()?;
                Some((id.to_owned(), LessSafeKey::new(key)))
            };
            let (id, key) = read().ok_or(SealingKeysError::Entry(index + 1))?;
            if keys.iter().any(|(known, _)| *known == id) {
                return Err(SealingKeysError::Repeated(id));
            }
            keys.push((id, key));
        }
        Ok(Self { keys: keys.into() })
    }

    /// One new random key under the id `k1`, as [`Self::parse`] reads it.
    pub fn generate() -> String {
        format!("k1:{}", BASE64_STANDARD.encode(rand::random::<[u8; 32]>()))
    }

    /// Whether secrets are stored sealed.
    pub fn is_present(&self) -> bool {
        !self.keys.is_empty()
    }

    /// The stored form of a secret of `owner`.
    pub fn seal(&self, secret: &str, owner: &str) -> String {
        let Some((id, key)) = self.keys.first() else {
            return secret.to_owned();
        };
        let sealed = seal_with(key, rand::random(), secret, owner);
        format!("{MARK}{id}:{}", BASE64_STANDARD.encode(sealed))
    }

    /// The secret of `owner` in its stored form.
    pub fn open(&self, stored: &str, owner: &str) -> Result<String, OpenError> {
        let Some(sealed) = stored.strip_prefix(MARK) else {
            return Ok(stored.to_owned());
        };
        let (id, sealed) = sealed.split_once(':').ok_or(OpenError::Damaged)?;
        let known = self.keys.iter().find(|(known, _)| known == id);
        let (_, key) = known.ok_or_else(|| OpenError::UnknownKey(id.to_owned()))?;
        let bytes = BASE64_STANDARD.decode(sealed);
        open_with(key, bytes.map_err(|_| OpenError::Damaged)?, owner)
    }

    /// Whether a stored form is the one that [`Self::seal`] makes today, under the first key.
    pub fn is_current(&self, stored: &str) -> bool {
        match self.keys.first() {
            Some((id, _)) => stored.starts_with(&format!("{MARK}{id}:")),
            None => !stored.starts_with(MARK),
        }
    }
}

fn seal_with(key: &LessSafeKey, nonce: [u8; NONCE_LEN], secret: &str, owner: &str) -> Vec<u8> {
    let mut sealed = nonce.to_vec();
    let mut text = secret.as_bytes().to_vec();
    key.seal_in_place_append_tag(
        Nonce::assume_unique_for_key(nonce),
        Aad::from(owner),
        &mut text,
    )
    .expect("a text of a request is shorter than 64 GiB");
    sealed.extend(text);
    sealed
}

fn open_with(key: &LessSafeKey, sealed: Vec<u8>, owner: &str) -> Result<String, OpenError> {
    let (nonce, text) = sealed
        .split_at_checked(NONCE_LEN)
        .ok_or(OpenError::Damaged)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| OpenError::Damaged)?;
    let mut text = text.to_vec();
    let opened = key.open_in_place(nonce, Aad::from(owner), &mut text);
    let opened = opened.map_err(|_| OpenError::Damaged)?;
    String::from_utf8(opened.to_vec()).map_err(|_| OpenError::Damaged)
}

impl fmt::Debug for SealingKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<&str> = self.keys.iter().map(|(id, _)| id.as_str()).collect();
        write!(f, "SealingKeys({}; redacted)", ids.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";

    fn key(id: &str, byte: u8) -> String {
        format!("{id}:{}", BASE64_STANDARD.encode([byte; 32]))
    }

    fn keys(list: &[&str]) -> SealingKeys {
        SealingKeys::parse(&list.join(",")).expect("keys")
    }

    #[test]
    fn the_cipher_is_the_published_one() {
        let bytes: Vec<u8> = (0..32).collect();
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &bytes).expect("32 bytes"));
        let nonce: Vec<u8> = (0..12).collect();
        let sealed = seal_with(&key, nonce.try_into().expect("12 bytes"), SECRET, "");
        assert_eq!(
            BASE64_STANDARD.encode(&sealed),
            "AAECAwQFBgcICQoLMGqlfqa6g1rIAtb84K86CuCfxGWfNxs9CCih/Vw7RdpMReiu9plV2h/FOJX/42BQ1l/Bp657V+zb0UyYXMo4ceU="
        );
        assert_eq!(open_with(&key, sealed, "").expect("it opens"), SECRET);
    }

    #[test]
    fn a_secret_opens_for_its_own_record_only() {
        let keys = keys(&[&key("a", 1)]);
        let sealed = keys.seal(SECRET, "whsub_1");
        assert!(sealed.starts_with("enc:a:") && !sealed.contains(SECRET));
        assert_ne!(sealed, keys.seal(SECRET, "whsub_1"), "a nonce of its own");
        assert_eq!(keys.open(&sealed, "whsub_1"), Ok(SECRET.to_owned()));
        assert_eq!(keys.open(&sealed, "whsub_2"), Err(OpenError::Damaged));
        for stored in [
            "enc:a:AAAA",
            "enc:a:%",
            "enc:a",
            &sealed[..sealed.len() - 8],
        ] {
            assert_eq!(keys.open(stored, "whsub_1"), Err(OpenError::Damaged));
        }
    }

    #[test]
    fn a_new_key_in_front_seals_and_the_old_one_still_opens() {
        let (old, new) = (key("old", 1), key("new", 2));
        let sealed = keys(&[&old]).seal(SECRET, "r");
        let both = keys(&[&new, &old]);
        assert_eq!(both.open(&sealed, "r"), Ok(SECRET.to_owned()));
        assert!(!both.is_current(&sealed));
        let again = both.seal(SECRET, "r");
        assert!(again.starts_with("enc:new:") && both.is_current(&again));
        let unknown = OpenError::UnknownKey("new".to_owned());
        assert_eq!(keys(&[&old]).open(&again, "r"), Err(unknown));
        let same_id = keys(&[&key("new", 3)]);
        assert_eq!(same_id.open(&again, "r"), Err(OpenError::Damaged));
    }

    #[test]
    fn plaintext_from_before_a_key_is_read_unchanged() {
        let (none, keys) = (SealingKeys::default(), keys(&[&key("a", 1)]));
        assert_eq!(none.seal(SECRET, "r"), SECRET);
        assert_eq!(keys.open(SECRET, "r"), Ok(SECRET.to_owned()));
        assert!(!keys.is_current(SECRET) && none.is_current(SECRET));
    }

    #[test]
    fn keys_are_validated_and_never_printed() {
        let good = key("k", 7);
        let text = good.split_once(':').expect("two parts").1.to_owned();
        assert!(!format!("{:?}", keys(&[&good])).contains(&text));
        assert!(SealingKeys::parse(&SealingKeys::generate()).is_ok());
        for (list, error) in [
            (String::new(), SealingKeysError::Entry(1)),
            (text.clone(), SealingKeysError::Entry(1)),
            ("k:AAAA".to_owned(), SealingKeysError::Entry(1)),
            (format!("{good},k 2:{text}"), SealingKeysError::Entry(2)),
            (format!("{good},"), SealingKeysError::Entry(2)),
            (
                format!("{good},{good}"),
                SealingKeysError::Repeated("k".to_owned()),
            ),
        ] {
            let refused = SealingKeys::parse(&list).expect_err("it is refused");
            assert_eq!(refused, error);
            assert!(!refused.to_string().contains(&text));
        }
    }
}
