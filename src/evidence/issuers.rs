//! Signing keys: the windows of a deployment's keys follow one another, so that at any time there is one key or none.

use super::issuer::{Issuer, ServerId, Signer};
use super::key::SigningKey;
use super::key_set::{KeySet, ListedKey};
use super::registry::Registered;
use crate::domain::dialect::Dialect;

/// How envelopes name the key of their signature. A key that is registered keeps its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignerForm {
    /// By the public key, so that nothing else is needed to check the signature.
    Raw,
    /// By the key set of the server.
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

/// Why keys cannot be those of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IssuersError {
    /// Two keys have one id.
    #[error("two keys have the id `{0}`")]
    RepeatedId(String),
    /// A key is listed twice.
    #[error("the keys `{0}` and `{1}` are the same key")]
    RepeatedKey(String, String),
    /// A window that holds no time.
    #[error("the window of the key `{0}` ends before it begins")]
    EmptyWindow(String),
    /// Two keys would sign at one time.
    #[error("the windows of the keys `{0}` and `{1}` overlap")]
    Overlap(String, String),
}

impl Issuers {
    /// With these keys, present, past and future ones.
    ///
    /// # Errors
    /// [`IssuersError`] where it would be open which key signs, or signed.
    pub fn new(
        dialect: Dialect,
        server_id: ServerId,
        form: SignerForm,
        mut keys: Vec<ListedKey>,
    ) -> Result<Self, IssuersError> {
        keys.sort_by_key(|listed| listed.from_ms);
        for (at, listed) in keys.iter().enumerate() {
            let kid = || listed.kid.clone();
            let mut earlier = keys[..at].iter();
            if earlier.clone().any(|other| other.kid == listed.kid) {
                return Err(IssuersError::RepeatedId(kid()));
            }
            if let Some(other) = earlier.find(|other| other.key == listed.key) {
                return Err(IssuersError::RepeatedKey(other.kid.clone(), kid()));
            }
            if listed
                .until_ms
                .is_some_and(|until_ms| until_ms <= listed.from_ms)
            {
                return Err(IssuersError::EmptyWindow(kid()));
            }
        }
        for pair in keys.windows(2) {
            if pair[0].covers(pair[1].from_ms) {
                return Err(IssuersError::Overlap(
                    pair[0].kid.clone(),
                    pair[1].kid.clone(),
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
        self.issuer_in(self.form, listed)
    }

    /// The same under the other name that the key may have been registered by, before the configured form was changed.
    pub fn issuer_in_other_form(&self, listed: &ListedKey) -> Issuer {
        let other = match self.form {
            SignerForm::Raw => SignerForm::Listed,
            SignerForm::Listed => SignerForm::Raw,
        };
        self.issuer_in(other, listed)
    }

    /// The key of a registered issuer, whose window starts at `from_ms`; `None` where it is not configured.
    pub fn listed(&self, issuer: &Issuer, from_ms: i64) -> Option<&ListedKey> {
        let is_it = |listed: &&ListedKey| {
            *issuer == self.issuer(listed)
                || (listed.from_ms == from_ms && *issuer == self.issuer_in_other_form(listed))
        };
        self.set.keys.iter().find(is_it)
    }

    fn issuer_in(&self, form: SignerForm, listed: &ListedKey) -> Issuer {
        Issuer {
            dialect: self.dialect,
            server_id: self.server_id.clone(),
            signer: match form {
                SignerForm::Raw => Signer::Raw(listed.key),
                SignerForm::Listed => Signer::listed(self.dialect, &self.server_id, &listed.kid),
            },
        }
    }

    /// The key pair of an issuer, also under a former server id; `None` if its seed is not among `keys`.
    pub fn key_of<'k>(
        &self,
        registered: &Registered,
        keys: &'k [SigningKey],
    ) -> Option<&'k SigningKey> {
        let issuer = &registered.issuer;
        let public = match &issuer.signer {
            Signer::Raw(public) => *public,
            Signer::Listed { dialect, .. } => {
                // The name contains a hash of the server id at that time. Keys with the same id differ in their start.
                let is_signer = |listed: &&ListedKey| {
                    let name = Signer::listed(*dialect, &issuer.server_id, &listed.kid);
                    name == issuer.signer && listed.from_ms == registered.from_ms
                };
                self.set.keys.iter().find(is_signer)?.key
            }
        };
        keys.iter().find(|key| key.public() == public)
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
mod tests {
    use super::*;

    fn listed(kid: &str, seed: u8, from_ms: i64, until_ms: Option<i64>) -> ListedKey {
        let key = SigningKey::parse(&format!("{seed:02x}").repeat(32)).expect("a seed");
        ListedKey {
            kid: kid.to_owned(),
            key: key.public(),
            from_ms,
            until_ms,
        }
    }

    fn issuers(keys: &[ListedKey]) -> Result<Issuers, IssuersError> {
        let server_id = ServerId::parse("https://a.example/v1").expect("a server id");
        Issuers::new(
            Dialect::Service,
            server_id,
            SignerForm::Listed,
            keys.to_vec(),
        )
    }

    #[test]
    fn at_most_one_key_signs_at_any_time() {
        // In any order; between b and c is a gap.
        let keys = [
            listed("c", 3, 30, None),
            listed("a", 1, 5, Some(10)),
            listed("b", 2, 10, Some(20)),
        ];
        let issuers = issuers(&keys).expect("windows that follow one another");
        for (at_ms, kid) in [
            (4, None),
            (5, Some("a")),
            (9, Some("a")),
            (10, Some("b")),
            (20, None),
            (30, Some("c")),
            (i64::MAX, Some("c")),
        ] {
            let keys = issuers.key_set().keys.iter();
            let signing: Vec<_> = keys.filter(|listed| listed.covers(at_ms)).collect();
            assert!(signing.len() < 2, "{at_ms}");
            let signing = signing.first().map(|listed| listed.kid.as_str());
            assert_eq!(signing, kid, "{at_ms}");
        }
        let kids = issuers.key_set().keys.iter().map(|listed| &*listed.kid);
        assert_eq!(kids.collect::<Vec<_>>(), ["a", "b", "c"]);
    }

    #[test]
    fn keys_with_overlapping_windows_are_refused() {
        use IssuersError::{EmptyWindow, Overlap, RepeatedId, RepeatedKey};
        let (a, b) = (|| "a".to_owned(), || "b".to_owned());
        for (keys, error) in [
            (
                [listed("a", 1, 0, Some(9)), listed("a", 2, 9, None)],
                RepeatedId(a()),
            ),
            (
                [listed("a", 1, 0, Some(9)), listed("b", 1, 9, None)],
                RepeatedKey(a(), b()),
            ),
            (
                [listed("a", 1, 0, Some(0)), listed("b", 2, 9, None)],
                EmptyWindow(a()),
            ),
            (
                [listed("a", 1, 0, Some(9)), listed("b", 2, 9, Some(8))],
                EmptyWindow(b()),
            ),
            (
                [listed("a", 1, 0, Some(9)), listed("b", 2, 8, None)],
                Overlap(a(), b()),
            ),
            (
                [listed("a", 1, 0, None), listed("b", 2, 8, None)],
                Overlap(a(), b()),
            ),
            (
                [listed("a", 1, 0, Some(9)), listed("b", 2, 0, Some(3))],
                Overlap(a(), b()),
            ),
        ] {
            assert_eq!(issuers(&keys), Err(error), "{keys:?}");
        }
        assert!(issuers(&[]).is_ok());
    }

    #[test]
    fn the_form_decides_how_a_key_is_named() {
        let keys = [listed("a", 1, 0, None)];
        let by_set = issuers(&keys).expect("a key");
        let raw = Issuers {
            form: SignerForm::Raw,
            ..by_set.clone()
        };
        let name = |issuers: &Issuers| issuers.issuer(&keys[0]).signer.to_string();
        assert_eq!(name(&raw), keys[0].key.hex());
        assert!(name(&by_set).ends_with("#a"));
        let other = |issuers: &Issuers| issuers.issuer_in_other_form(&keys[0]);
        assert_eq!(other(&raw), by_set.issuer(&keys[0]));
        assert_eq!(other(&by_set), raw.issuer(&keys[0]));
        for issuer in [raw.issuer(&keys[0]), other(&raw)] {
            assert_eq!(raw.listed(&issuer, 0), Some(&keys[0]));
        }
        // Another key of that id, which was configured once.
        assert_eq!(raw.listed(&other(&raw), 5), None);
    }
}
