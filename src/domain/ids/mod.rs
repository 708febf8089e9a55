//! Identifiers: parsed once, never assembled by hand elsewhere.
//!
//! Everything of a tenant lives in the tenant's [`Partition`], and each id that the service makes carries the partition in its
//! text, so that a record is found from its id alone. The ids of things that a request creates are derived from the request:
//! the same tenant and idempotency key give the same id on every replica, which makes the record its own idempotency entry.

mod random;

use std::fmt::{self, Write as _};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use smol_str::{SmolStr, ToSmolStr as _};

use super::fields::{Form, Keyword, Read, Text, Value, plain_field, text_field};
pub use random::RandomPart;
pub(crate) use random::random_id;

/// One of the fixed number of groups over which tenants are spread; all keys of a partition share a hash slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Partition(u16);

impl Partition {
    /// How many partitions there are, for the life of a deployment's data.
    pub const COUNT: u16 = 1024;
    /// Where that is kept which belongs to no tenant.
    pub const FIRST: Self = Self(0);

    /// The partition of that number, if there is one.
    pub fn new(index: u16) -> Option<Self> {
        (index < Self::COUNT).then_some(Self(index))
    }

    /// All partitions, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self)
    }

    /// Reads exactly three lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let index = u16::from_str_radix(text, 16).ok();
        index.filter(|_| is_hex(text, 3)).and_then(Self::new)
    }

    /// The number, 0 to 1023.
    pub fn index(self) -> u16 {
        self.0
    }

    /// Reads the partition out of an id such as `r05f_…`.
    fn of_id(id: &str, letters: &str) -> Option<Self> {
        let rest = id.strip_prefix(letters)?;
        let (partition, rest) = rest.split_at_checked(3)?;
        rest.starts_with('_').then(|| Self::parse(partition))?
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:03x}", self.0)
    }
}

/// A string newtype with the usual read access; the inner text is private, so that parsing is the only way in. A request copies most
/// of its ids several times, so a copy costs no allocation; nor does a text of up to 23 bytes.
macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
        #[serde(transparent)]
        pub struct $name(smol_str::SmolStr);

        impl $name {
            /// The text of the id.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}
pub(crate) use text_id;

text_field!(TenantId, TenantId::parse);
text_field!(ReservationId, ReservationId::parse);
text_field!(PostId, PostId::parse);
plain_field!(
    IdempotencyKey,
    Text,
    |text, _| text.or_chars(Self::CHARS).schema(),
    |value, rules| {
        let text = value.text(&rules.or_chars(Self::CHARS))?;
        Self::parse(&text)
    }
);

impl Read for TenantId {
    fn read(value: Value<'_>, rules: &Text) -> Option<Self> {
        value.text(rules).and_then(|text| Self::parse(&text))
    }
}

text_id! {
    /// A tenant's id: 3 to 64 of `a-z`, `0-9` and `-`, chosen by the operator.
    TenantId
}

impl TenantId {
    /// Fewest and most characters.
    pub const CHARS: std::ops::RangeInclusive<usize> = 3..=64;

    /// The form of a new tenant's id.
    pub const FORM: Form = Form {
        wanted: "3 to 64 characters of a-z 0-9 - other than system",
        accepts: |text| text != "system" && Self::parse(text).is_some(),
        published: Some(("^[a-z0-9-]+$", Self::CHARS)),
    };

    /// Accepts what could be the id of an existing tenant; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let charset = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (Self::CHARS.contains(&text.len()) && text.bytes().all(charset)).then(|| Self(text.into()))
    }

    /// The partition in which everything of the tenant is kept: the first ten bits of the id's SHA-256.
    pub fn partition(&self) -> Partition {
        let digest = Sha256::digest(self.0.as_bytes());
        Partition(u16::from_be_bytes([digest[0], digest[1]]) >> 6)
    }
}

text_id! {
    /// Names a reservation. Ids that the service makes look like `r05f_` and 24 characters; a client may present any text.
    ReservationId
}

impl ReservationId {
    /// Fewest and most characters of an id that a client may present.
    pub const CHARS: std::ops::RangeInclusive<usize> = 1..=128;

    /// Accepts any text of 1 to 128 characters: one that no reservation has is not found, it is not malformed.
    pub fn parse(text: &str) -> Option<Self> {
        Self::CHARS
            .contains(&text.chars().count())
            .then(|| Self(text.into()))
    }

    /// The id of the reservation that this tenant creates, or has created, under this key.
    pub fn derive(secret: &DeploymentSecret, tenant: &TenantId, key: &IdempotencyKey) -> Self {
        Self(secret.derive("r", "reservation", tenant, key))
    }

    /// The partition that the id names, if it names one.
    pub fn partition(&self) -> Option<Partition> {
        Partition::of_id(&self.0, "r")
    }
}

text_id! {
    /// Names a post-only event: what was charged without a reservation.
    PostId
}

impl PostId {
    /// The id of the event that this tenant posts, or has posted, under this key.
    pub fn derive(secret: &DeploymentSecret, tenant: &TenantId, key: &IdempotencyKey) -> Self {
        Self(secret.derive("e", "event", tenant, key))
    }

    /// Accepts any text of 1 to 128 characters, as [`ReservationId::parse`].
    pub fn parse(text: &str) -> Option<Self> {
        ReservationId::CHARS
            .contains(&text.chars().count())
            .then(|| Self(text.into()))
    }

    /// The partition that the id names, if it names one.
    pub fn partition(&self) -> Option<Partition> {
        Partition::of_id(&self.0, "e")
    }
}

text_id! {
    /// Names the stored answer of a decision. Internal: no response shows it.
    DecisionId
}

impl DecisionId {
    /// The id of the decision that this tenant asks for, or has asked for, under this key.
    pub fn derive(secret: &DeploymentSecret, tenant: &TenantId, key: &IdempotencyKey) -> Self {
        Self(secret.derive("d", "decide", tenant, key))
    }
}

text_id! {
    /// The client's name for one attempt to do something once: 1 to 256 characters, compared exactly.
    IdempotencyKey
}

impl IdempotencyKey {
    /// Fewest and most characters.
    pub const CHARS: std::ops::RangeInclusive<usize> = 1..=256;

    /// `None` when the text is empty or longer than 256 characters.
    pub fn parse(text: &str) -> Option<Self> {
        Self::CHARS
            .contains(&text.chars().count())
            .then(|| Self(text.into()))
    }

    /// How a record names the key: 22 characters of its SHA-256.
    pub fn digest(&self) -> SmolStr {
        ascii(&base64::<22>(&Sha256::digest(self.0.as_bytes())[..16])).into()
    }
}

text_id! {
    /// Names one HTTP request; made by the service, `req_` and 32 hexadecimal digits.
    RequestId
}

impl RequestId {
    /// A new random id.
    pub fn mint() -> Self {
        Self(concat(&["req_", ascii(&hex_digits(rand::random()))]))
    }

    /// Accepts 1 to 128 of `A-Za-z0-9._:-`. What else a client sends would end up in logs and audit entries, so it is not taken.
    pub fn parse(text: &str) -> Option<Self> {
        let charset = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
        let well_formed = (1..=128).contains(&text.len()) && text.bytes().all(charset);
        well_formed.then(|| Self(text.into()))
    }
}

text_id! {
    /// Names one logical operation, which may span many requests: 32 lower-case hexadecimal digits, not all zero.
    TraceId
}

/// The form of trace ids, as descriptions have it.
pub const TRACE_ID_PATTERN: Keyword = ("pattern", || "^[0-9a-f]{32}$".into());

impl TraceId {
    /// A new random id.
    pub fn mint() -> Self {
        loop {
            let random: u128 = rand::random();
            if random != 0 {
                return Self(ascii(&hex_digits(random)).into());
            }
        }
    }

    /// `None` for anything but 32 lower-case hexadecimal digits, and for 32 zeros.
    pub fn parse(text: &str) -> Option<Self> {
        let well_formed = is_hex(text, 32) && text.bytes().any(|byte| byte != b'0');
        well_formed.then(|| Self(text.into()))
    }
}

text_id! {
    /// Names an envelope by its content: 64 lower-case hexadecimal digits.
    EvidenceId
}

impl EvidenceId {
    /// The form of an id, as a regular expression.
    pub const PATTERN: &'static str = "^[0-9a-f]{64}$";

    /// Accepts exactly that.
    pub fn parse(text: &str) -> Option<Self> {
        is_hex(text, 64).then(|| Self(text.into()))
    }

    /// The partition in which the envelope is kept: the first ten bits of the id.
    pub fn partition(&self) -> Partition {
        let bits = u16::from_str_radix(&self.0[..3], 16).unwrap_or_default() >> 2;
        Partition::new(bits).unwrap_or(Partition::FIRST)
    }
}

/// The random secret of a deployment, from which ids are derived. Without it ids could be guessed from idempotency keys.
#[derive(Clone, PartialEq, Eq)]
pub struct DeploymentSecret([u8; 32]);

impl DeploymentSecret {
    /// A new random secret, for the first start on an empty store.
    pub fn generate() -> Self {
        Self(rand::random())
    }

    /// Reads the stored form, 43 characters base64url.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        bytes.try_into().ok().map(Self)
    }

    /// The stored form. For the store alone: never for a log or an answer.
    pub fn expose(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(self.0)
    }

    /// A short tag by which the service recognizes its own text when a client brings it back.
    pub fn tag(&self, purpose: &str, text: &str) -> [u8; 8] {
        let digest = hmac_sha256(&self.0, &[purpose.as_bytes(), b"\0", text.as_bytes()]);
        let mut tag = [0; 8];
        tag.copy_from_slice(&digest[..8]);
        tag
    }

    /// `<letter><partition>_` and 24 characters of the keyed hash over what is named, for whom, and under which key.
    fn derive(&self, letter: &str, what: &str, tenant: &TenantId, key: &IdempotencyKey) -> SmolStr {
        // A zero byte ends each part; a tenant id cannot hold one and the key comes last, so no two inputs read alike.
        let digest = hmac_sha256(
            &self.0,
            &[
                what.as_bytes(),
                b"\0",
                tenant.as_str().as_bytes(),
                b"\0",
                key.as_str().as_bytes(),
            ],
        );
        let partition = tenant.partition().to_smolstr();
        concat(&[letter, &partition, "_", ascii(&base64::<24>(&digest[..18]))])
    }
}

/// The HMAC-SHA256 of the concatenated parts.
pub(super) fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

impl fmt::Debug for DeploymentSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeploymentSecret(redacted)")
    }
}

/// Whether a text is as many lower-case hexadecimal digits.
pub fn is_hex(text: &str, digits: usize) -> bool {
    let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == digits && text.bytes().all(is_digit)
}

/// Lower-case hexadecimal digits, two for each byte.
pub fn hex(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// 32 lower-case hexadecimal digits.
fn hex_digits(number: u128) -> [u8; 32] {
    let mut digits = [0; 32];
    for (place, digit) in digits.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(number >> (124 - 4 * place)) as usize & 15];
    }
    digits
}

/// Parts of a text with up to 64 bytes in all.
pub(in crate::domain) fn concat(parts: &[&str]) -> SmolStr {
    let (mut text, mut end) = ([0; 64], 0);
    for part in parts {
        text[end..end + part.len()].copy_from_slice(part.as_bytes());
        end += part.len();
    }
    SmolStr::new(str::from_utf8(&text[..end]).expect("whole texts"))
}

/// Bytes as so many characters base64url.
pub(in crate::domain) fn base64<const CHARS: usize>(bytes: &[u8]) -> [u8; CHARS] {
    let mut text = [0; CHARS];
    let written = BASE64_URL_SAFE_NO_PAD.encode_slice(bytes, &mut text);
    assert_eq!(written, Ok(CHARS), "the number follows from the bytes");
    text
}

/// The text of digits or base64url.
pub(in crate::domain) fn ascii(text: &[u8]) -> &str {
    str::from_utf8(text).expect("ASCII")
}

#[cfg(test)]
mod tests;
