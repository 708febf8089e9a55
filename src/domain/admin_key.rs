//! The keys of the admin plane, which are configured and not stored.

use std::fmt;
use std::sync::Arc;

use secrecy::SecretString;
use sha2::{Digest, Sha256};
use subtle::{ConditionallySelectable, ConstantTimeEq};

use super::api_key::secret::KeyHash;
use super::ids::text_id;

/// The longest name of a key, in characters.
const NAME_CHARS_MAX: usize = 32;

text_id! {
    /// The name of an admin key, which audit entries show as the actor.
    AdminKeyName
}

impl AdminKeyName {
    fn parse(text: &str) -> Option<Self> {
        let fits = (1..=NAME_CHARS_MAX).contains(&text.len());
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        (fits && text.bytes().all(allowed)).then(|| Self(text.into()))
    }
}

/// The holder of an admin key. Only [`AdminKeys::accept`] makes one.
#[derive(Clone)]
pub struct AdminCaller {
    name: Option<AdminKeyName>,
    digest: [u8; 32],
}

impl AdminCaller {
    /// The name of the key, if it has one.
    pub fn name(&self) -> Option<&AdminKeyName> {
        self.name.as_ref()
    }

    /// The digest of the key, which distinguishes it from others of the same name.
    pub(super) fn digest(&self) -> &[u8] {
        &self.digest
    }

    /// The same as the digest of an API key.
    pub fn key_hash(&self) -> KeyHash {
        KeyHash::of_digest(&self.digest)
    }
}

impl fmt::Debug for AdminCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AdminCaller({:?}, redacted)", self.name)
    }
}

/// The keys of the admin plane, as their digests: compared in constant time whatever their lengths, never printed.
#[derive(Clone, Default)]
pub struct AdminKeys(Arc<[AdminKey]>);

struct AdminKey {
    caller: AdminCaller,
    chars: usize,
    /// Whether all its characters are the same.
    is_uniform: bool,
}

/// Why a list of admin keys is refused. Entries are counted from 1, so that no message holds a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdminKeysError {
    /// Such a key anybody could guess.
    #[error("entry {0} is empty")]
    Empty(usize),
    /// It is unclear which name counts.
    #[error("entry {0} has the same key as another one")]
    Repeated(usize),
}

impl AdminKeys {
    /// Reads a comma-separated list of `key` or `name=key`; blank means none.
    ///
    /// # Errors
    /// [`AdminKeysError`].
    pub fn parse(list: &str) -> Result<Self, AdminKeysError> {
        if list.trim().is_empty() {
            return Ok(Self::default());
        }
        let mut keys = Vec::<AdminKey>::new();
        for (number, entry) in (1..).zip(list.split(',')) {
            let (name, key) = named(entry.trim());
            if key.is_empty() {
                return Err(AdminKeysError::Empty(number));
            }
            let digest = digest(key);
            if keys.iter().any(|known| known.caller.digest == digest) {
                return Err(AdminKeysError::Repeated(number));
            }
            keys.push(AdminKey {
                caller: AdminCaller { name, digest },
                chars: key.chars().count(),
                is_uniform: key.chars().all(|other| key.starts_with(other)),
            });
        }
        Ok(Self(keys.into()))
    }

    /// A random key.
    pub fn generate() -> SecretString {
        format!("admin_{:032x}", rand::random::<u128>()).into()
    }

    /// Whether no key opens the admin plane.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first key shorter than `chars_min`: its number in the list, and its characters.
    pub fn first_below(&self, chars_min: usize) -> Option<(usize, usize)> {
        let mut numbered = (1..).zip(self.0.iter());
        let short = numbered.find(|(_, key)| key.chars < chars_min);
        short.map(|(number, key)| (number, key.chars))
    }

    /// The number of the first key that repeats one character.
    pub fn first_uniform(&self) -> Option<usize> {
        let place = self.0.iter().position(|key| key.is_uniform)?;
        Some(place + 1)
    }

    /// The holder of the key with this digest, if it is still one of them.
    pub fn holder(&self, hash: &KeyHash) -> Option<AdminCaller> {
        let of_key = |key: &&AdminKey| KeyHash::of_digest(&key.caller.digest) == *hash;
        self.0.iter().find(of_key).map(|key| key.caller.clone())
    }

    /// The holder of `key`, if it is one of them. Takes the same time whichever it is.
    pub fn accept(&self, key: &str) -> Option<AdminCaller> {
        let digest = digest(key);
        let found = (1..).zip(self.0.iter()).fold(0, |found, (number, known)| {
            u64::conditional_select(&found, &number, known.caller.digest.ct_eq(&digest))
        });
        let place = usize::try_from(found.checked_sub(1)?).ok()?;
        Some(self.0.get(place)?.caller.clone())
    }
}

impl fmt::Debug for AdminKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AdminKeys({}, redacted)", self.0.len())
    }
}

fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key).into()
}

/// Splits `name=key`. The padding of a base64 text without a name is part of the key.
fn named(entry: &str) -> (Option<AdminKeyName>, &str) {
    let named = entry.split_once('=').and_then(|(name, key)| {
        let has_key = !key.trim_start_matches('=').is_empty();
        Some((AdminKeyName::parse(name)?, key)).filter(|_| has_key)
    });
    named.map_or((None, entry), |(name, key)| (Some(name), key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_listed_key_opens_the_admin_plane() {
        let keys = AdminKeys::parse("old, new").expect("two keys");
        let opens = |key| keys.accept(key).is_some();
        assert!(opens("old") && opens("new"));
        assert!(!opens("") && !opens("ne") && !opens("old, new"));
        let none = AdminKeys::parse(" ").expect("none");
        assert!(none.is_empty() && none.accept("").is_none());
    }

    #[test]
    fn a_key_may_have_a_name_and_any_character_but_a_comma() {
        let long = "k".repeat(33);
        let list = format!("ops=s3cret,ci.deploy-2=a=b,cGxhaW4=,cGxhaQ==,{long}=x,o s=y,plain");
        let keys = AdminKeys::parse(&list).expect("keys");
        let name = |key: &str| {
            let caller = keys.accept(key).unwrap_or_else(|| panic!("{key}"));
            caller.name().map(|name| name.as_str().to_owned())
        };
        assert_eq!(name("s3cret").as_deref(), Some("ops"));
        assert_eq!(name("a=b").as_deref(), Some("ci.deploy-2"));
        for key in [
            "cGxhaW4=",
            "cGxhaQ==",
            &format!("{long}=x"),
            "o s=y",
            "plain",
        ] {
            assert_eq!(name(key), None, "{key}");
        }
        assert!(keys.accept("ops").is_none() && keys.accept("ops=s3cret").is_none());
        assert_eq!(keys.first_below(6), Some((2, 3)));
        assert_eq!(keys.first_below(3), None);
        assert_eq!(keys.first_uniform(), None);
        let keys = AdminKeys::parse("abab,ops=ääää").expect("keys");
        assert_eq!(keys.first_uniform(), Some(2));
    }

    #[test]
    fn an_empty_or_repeated_key_is_refused() {
        use AdminKeysError as Refused;
        for (list, refused) in [
            ("a,,b", Refused::Empty(2)),
            ("a,", Refused::Empty(2)),
            ("a,ops=a", Refused::Repeated(2)),
        ] {
            assert_eq!(AdminKeys::parse(list).map(drop), Err(refused), "{list}");
        }
        // Several keys may share a name while one replaces the other.
        assert!(AdminKeys::parse("ops=a,ops=b").is_ok());
    }
}
