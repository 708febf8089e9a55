//! Ed25519 keys (RFC 8032).

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ed25519_dalek::{Signature, Signer as _};
use secrecy::SecretString;

use crate::domain::ids::hex;

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

/// Whether a text is as many lower-case hexadecimal digits.
pub(super) fn is_hex(text: &str, digits: usize) -> bool {
    let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == digits && text.bytes().all(is_digit)
}

fn bytes_of_hex<const BYTES: usize>(digits: &str) -> Option<[u8; BYTES]> {
    if !is_hex(digits, 2 * BYTES) {
        return None;
    }
    let value = |digit: u8| {
        char::from(digit)
            .to_digit(16)
            .and_then(|value| u8::try_from(value).ok())
    };
    let mut bytes = [0; BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
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
}
