//! Ed25519 keys (RFC 8032), and key sets: the public keys of a deployment, and when each of them was valid (JSON Web Keys, RFC 7517
//! and RFC 8037).

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ed25519_dalek::{Signature, Signer as _};
use secrecy::SecretString;

use crate::domain::dialect::Dialect;
use crate::domain::ids::{hex, is_hex};
use crate::domain::json::Json;

/// The public half of a key pair.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(ed25519_dalek::VerifyingKey);

impl PublicKey {
    /// From 64 lower-case hexadecimal digits; `None` where they are no point of the curve.
    pub fn parse(digits: &str) -> Option<Self> {
        Self::of_bytes(&bytes_of_hex(digits)?)
    }

    /// From its bytes in base64url without padding, as JSON Web Keys have them.
    pub fn parse_base64(text: &str) -> Option<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        Self::of_bytes(&bytes.try_into().ok()?)
    }

    /// A key of low order would accept a signature of almost anything, and a coordinate beyond the field would be a second
    /// name of one key.
    fn of_bytes(bytes: &[u8; 32]) -> Option<Self> {
        let is_beyond = bytes[0] >= 0xed
            && bytes[1..31].iter().all(|byte| *byte == 0xff)
            && bytes[31] & 0x7f == 0x7f;
        let key = ed25519_dalek::VerifyingKey::from_bytes(bytes).ok()?;
        (!is_beyond && !key.is_weak()).then_some(Self(key))
    }

    /// Its bytes in lower-case hexadecimal digits.
    pub fn hex(&self) -> String {
        hex(self.0.as_bytes())
    }

    /// Its bytes in base64url without padding.
    pub fn base64(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.0.as_bytes())
    }

    /// Whether a signature in lower-case hexadecimal digits is that of these bytes.
    pub fn verifies(&self, bytes: &[u8], signature: &str) -> bool {
        bytes_of_hex::<64>(signature).is_some_and(|signature| {
            let signature = Signature::from_bytes(&signature);
            self.0.verify_strict(bytes, &signature).is_ok()
        })
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.hex())
    }
}

/// A key pair. Never printed.
#[derive(Clone)]
pub struct SigningKey(ed25519_dalek::SigningKey);

impl SigningKey {
    /// From the seed: 64 lower-case hexadecimal digits.
    pub fn parse(seed: &str) -> Option<Self> {
        let seed = bytes_of_hex(seed)?;
        Some(Self(ed25519_dalek::SigningKey::from_bytes(&seed)))
    }

    /// A new one, and its seed.
    pub fn generate() -> (SecretString, Self) {
        let seed: [u8; 32] = rand::random();
        let key = ed25519_dalek::SigningKey::from_bytes(&seed);
        (hex(&seed).into(), Self(key))
    }

    /// Its public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// The signature of bytes, in lower-case hexadecimal digits. The same bytes always have the same one.
    pub fn sign(&self, bytes: &[u8]) -> String {
        hex(&self.0.sign(bytes).to_bytes())
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({}; seed redacted)", self.public().hex())
    }
}

fn bytes_of_hex<const BYTES: usize>(digits: &str) -> Option<[u8; BYTES]> {
    if !is_hex(digits, 2 * BYTES) {
        return None;
    }
    let mut bytes = [0; BYTES];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

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

impl KeySet {
    /// Reads a published set. An entry that is no valid key of this kind is left out: others may use the set too.
    ///
    /// # Errors
    /// Why it is no set at all.
    pub fn parse(bytes: &[u8], dialect: Dialect) -> Result<Self, String> {
        let set = Json::parse(bytes).map_err(|error| format!("it is not JSON: {error}"))?;
        let Some(Json::Array(entries)) = set.member("keys") else {
            return Err("it has no array `keys`".to_owned());
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

    const SEED: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const PUBLIC: &str = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8";

    #[test]
    fn a_key_pair_follows_from_its_seed() {
        let key = SigningKey::parse(SEED).expect("a seed");
        assert_eq!(key.public().hex(), PUBLIC);
        assert_eq!(
            key.public().base64(),
            "A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg"
        );
        assert_eq!(PublicKey::parse(PUBLIC), Some(key.public()));
        assert_eq!(
            PublicKey::parse_base64(&key.public().base64()),
            Some(key.public())
        );
    }

    #[test]
    fn a_signature_is_that_of_rfc_8032() {
        // Test 2 of its section 7.1.
        let key =
            SigningKey::parse("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb");
        let signature = key.expect("a seed").sign(&[0x72]);
        assert_eq!(
            signature,
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da\
             085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
        );
    }

    #[test]
    fn invalid_keys_are_refused() {
        let identity = format!("01{}", "00".repeat(31));
        let upper = PUBLIC.to_uppercase();
        for digits in [
            "",
            "03",
            &upper,
            &identity,
            &format!("{PUBLIC}00"),
            &"ff".repeat(32),
        ] {
            assert_eq!(PublicKey::parse(digits), None, "{digits}");
        }
        assert!(SigningKey::parse(&SEED.to_uppercase()).is_none());
    }

    #[test]
    fn a_signature_is_valid_only_for_its_bytes() {
        let key = SigningKey::parse(SEED).expect("a seed");
        let signature = key.sign(b"bytes");
        assert!(key.public().verifies(b"bytes", &signature));
        assert!(!key.public().verifies(b"Bytes", &signature));
        assert!(!key.public().verifies(b"bytes", &signature.to_uppercase()));
        assert!(!key.public().verifies(b"bytes", &signature[2..]));
    }

    #[test]
    fn no_seed_is_printed() {
        let key = SigningKey::parse(SEED).expect("a seed");
        assert!(!format!("{key:?}").contains("0001020304"));
    }

    const X: &str = "A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg";

    fn parse(text: &str) -> Result<KeySet, String> {
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
        assert_eq!(
            parse(r#"{"keys":{}}"#),
            Err("it has no array `keys`".to_owned())
        );
        let html = parse("<html>").expect_err("no JSON");
        assert!(html.starts_with("it is not JSON"), "{html}");
    }
}
