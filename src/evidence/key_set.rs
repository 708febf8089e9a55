//! Key sets: the public keys of a deployment, and when each of them was valid (JSON Web Keys, RFC 7517 and RFC 8037).

use super::key::PublicKey;
use crate::domain::dialect::Dialect;
use crate::domain::json::{Json, JsonError};

/// A public key and when it signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedKey {
    /// Its id.
    pub kid: String,
    /// The key.
    pub key: PublicKey,
    /// It is valid from then on, in milliseconds since the epoch.
    pub from_ms: i64,
    /// It is valid before then; without an end if there is none.
    pub until_ms: Option<i64>,
}

impl ListedKey {
    /// Whether it is valid at a time.
    pub fn covers(&self, at_ms: i64) -> bool {
        self.from_ms <= at_ms && self.until_ms.is_none_or(|until_ms| at_ms < until_ms)
    }
}

/// The keys of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeySet {
    /// In the order of the set.
    pub keys: Vec<ListedKey>,
}

/// Why bytes are no key set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    /// Not JSON.
    #[error("it is not JSON: {0}")]
    Json(#[from] JsonError),
    /// JSON of another kind.
    #[error("it has no array `keys`")]
    NoKeys,
}

impl KeySet {
    /// Reads a published set. An entry that is no valid key of this kind is left out: others may use the set too.
    ///
    /// # Errors
    /// [`KeySetError`] when it is no set at all.
    pub fn parse(bytes: &[u8], dialect: Dialect) -> Result<Self, KeySetError> {
        let set = Json::parse(bytes)?;
        let Some(Json::Array(entries)) = set.member("keys") else {
            return Err(KeySetError::NoKeys);
        };
        let keys = entries.iter().filter_map(|entry| listed(entry, dialect));
        Ok(Self {
            keys: keys.collect(),
        })
    }

    /// The set as it is published.
    pub fn json(&self, dialect: Dialect) -> Json {
        let entries = self.keys.iter().map(|listed| entry(listed, dialect));
        [("keys", Json::Array(entries.collect()))]
            .into_iter()
            .collect()
    }
}

fn listed(entry: &Json, dialect: Dialect) -> Option<ListedKey> {
    let words = dialect.words();
    let text = |name| entry.member(name).and_then(Json::as_text);
    let given = |name| entry.member(name).filter(|value| **value != Json::Null);
    if text("kty") != Some("OKP") || text("crv") != Some("Ed25519") {
        return None;
    }
    if given("alg").is_some_and(|alg| alg.as_text() != Some("EdDSA")) {
        return None;
    }
    let until_ms = match given(words.key_until_member) {
        Some(until) => Some(until.as_integer()?),
        None => None,
    };
    Some(ListedKey {
        kid: text("kid").filter(|kid| !kid.is_empty())?.to_owned(),
        key: PublicKey::parse_base64(text("x")?)?,
        from_ms: entry.member(words.key_from_member)?.as_integer()?,
        until_ms,
    })
}

fn entry(listed: &ListedKey, dialect: Dialect) -> Json {
    let words = dialect.words();
    let status = match listed.until_ms {
        Some(_) => "retired",
        None => "active",
    };
    let mut members = vec![
        ("kty", Json::from("OKP")),
        ("crv", Json::from("Ed25519")),
        ("alg", Json::from("EdDSA")),
        ("x", Json::from(&*listed.key.base64())),
        ("kid", Json::from(&*listed.kid)),
        (words.key_from_member, Json::from(listed.from_ms)),
    ];
    members.extend(
        listed
            .until_ms
            .map(|until_ms| (words.key_until_member, Json::from(until_ms))),
    );
    members.push(("status", Json::from(status)));
    members.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: &str = "A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg";

    fn parse(text: &str) -> Result<KeySet, KeySetError> {
        let text = text.replace('X', X);
        KeySet::parse(text.as_bytes(), Dialect::Service)
    }

    #[test]
    fn a_set_reads_back_as_it_was_published() {
        let key = PublicKey::parse_base64(X).expect("a key");
        let listed = |kid: &str, from_ms, until_ms| ListedKey {
            kid: kid.to_owned(),
            key,
            from_ms,
            until_ms,
        };
        let set = KeySet {
            keys: vec![listed("old", 0, Some(5)), listed("new", 5, None)],
        };
        for dialect in Dialect::ALL {
            let published = set.json(dialect).compact();
            assert_eq!(
                KeySet::parse(published.as_bytes(), dialect),
                Ok(set.clone())
            );
            let other = KeySet::parse(published.as_bytes(), dialect.other());
            assert_eq!(other.map(|set| set.keys.len()), Ok(0));
        }
    }

    #[test]
    fn a_key_window_includes_its_start_and_excludes_its_end() {
        let set = parse(
            r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"X","kid":"k","service_nbf_ms":5,"service_exp_ms":7}]}"#,
        );
        let key = set.expect("a set").keys.remove(0);
        let covered = [4, 5, 6, 7].map(|at_ms| key.covers(at_ms));
        assert_eq!(covered, [false, true, true, false]);
    }

    #[test]
    fn an_invalid_key_is_left_out_alone() {
        let good = r#"{"kty":"OKP","crv":"Ed25519","alg":null,"x":"X","kid":"k","service_nbf_ms":0,"service_exp_ms":null,"more":1}"#;
        for (from, to) in [
            (r#""OKP""#, r#""EC""#),
            (r#""Ed25519""#, r#""X25519""#),
            (r#""alg":null"#, r#""alg":"ES256""#),
            (r#""x":"X""#, r#""x":"X=""#),
            (r#""x":"X""#, r#""x":"AAAA""#),
            (r#""kid":"k""#, r#""kid":"""#),
            (r#""kid":"k","#, ""),
            (r#""service_nbf_ms":0,"#, ""),
            (r#""service_nbf_ms":0"#, r#""service_nbf_ms":"0""#),
            (r#""service_exp_ms":null"#, r#""service_exp_ms":"9""#),
        ] {
            let bad = good.replace(from, to);
            assert_ne!(good, bad);
            let set = parse(&format!(r#"{{"extra":1,"keys":[{bad},{good},7]}}"#));
            assert_eq!(set.map(|set| set.keys.len()), Ok(1), "{bad}");
        }
        assert_eq!(parse(r#"{"keys":{}}"#), Err(KeySetError::NoKeys));
        assert!(matches!(parse("<html>"), Err(KeySetError::Json(_))));
    }
}
