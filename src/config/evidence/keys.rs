//! Reads evidence keys and seeds. No error repeats a seed.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::evidence::{ListedKey, PublicKey, SigningKey};

/// How many digits of a public key make its default id.
const KID_DIGITS: usize = 16;
/// The last millisecond of the year 9999, the greatest time that is accepted.
const TIME_MAX: i64 = 253_402_300_799_999;

const NOT_AN_OBJECT: &str = r#"write an object such as {"public_key": "64 digits", "nbf_ms": 1767225600000}, with "kid" and "exp_ms" where needed"#;

/// A further key, as it is listed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyEntry {
    public_key: String,
    kid: Option<String>,
    nbf_ms: Option<i64>,
    exp_ms: Option<i64>,
}

/// Reads the list of further keys; blank means none. An error names the entry. Entries are read from their text, so that a
/// member that occurs twice is refused.
pub(super) fn listed_keys(text: &str) -> Result<Vec<ListedKey>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let entries: Vec<&RawValue> = serde_json::from_str(text)
        .map_err(|error| format!("it must be a JSON array of keys: {error}"))?;
    let read = |(index, entry): (usize, &RawValue)| {
        // Serde would take the members of an array in their order.
        let entry = match entry.get().starts_with('{') {
            true => serde_json::from_str(entry.get()).map_err(|error| error.to_string()),
            false => Err(NOT_AN_OBJECT.to_owned()),
        };
        let key =
            entry.and_then(|it: KeyEntry| listed(&it.public_key, it.kid, it.nbf_ms, it.exp_ms));
        key.map_err(|reason| format!("entry {}: {reason}", index + 1))
    };
    entries.into_iter().enumerate().map(read).collect()
}

/// A key and the time in which it signs. `kid`: its id; by default its first digits.
pub(super) fn listed(
    digits: &str,
    kid: Option<String>,
    from_ms: Option<i64>,
    until_ms: Option<i64>,
) -> Result<ListedKey, String> {
    let key = PublicKey::parse(digits)
        .ok_or("a public key is 64 lower-case hexadecimal digits that encode an Ed25519 key")?;
    let kid = kid.unwrap_or_else(|| digits[..KID_DIGITS].to_owned());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if !(1..=64).contains(&kid.len()) || !kid.chars().all(is_plain) {
        return Err("the id of a key has 1 to 64 characters of A-Z a-z 0-9 . _ -".to_owned());
    }
    let from_ms = from_ms.ok_or_else(|| format!("the key `{kid}` has no nbf_ms"))?;
    let in_range = |time: &i64| (0..=TIME_MAX).contains(time);
    if !in_range(&from_ms) || !until_ms.as_ref().is_none_or(in_range) {
        return Err(format!(
            "the times of the key `{kid}` must be milliseconds since 1970, up to the year 9999"
        ));
    }
    Ok(ListedKey {
        kid,
        key,
        from_ms,
        until_ms,
    })
}

/// Reads a list of seeds, separated by commas or lines. An error repeats none.
pub(super) fn signing_keys(text: &str) -> Result<Vec<SigningKey>, String> {
    let seeds = text.split([',', '\n']).map(str::trim);
    let seeds = seeds.filter(|seed| !seed.is_empty()).enumerate();
    let read = |(index, seed)| {
        SigningKey::parse(seed).ok_or_else(|| {
            format!(
                "seed {} must have 64 lower-case hexadecimal digits",
                index + 1
            )
        })
    };
    seeds.map(read).collect()
}

/// Checks that each seed belongs to a listed key, and that each key that signs now or later has its seed.
pub(super) fn pair(listed: &[ListedKey], keys: &[SigningKey], now_ms: i64) -> Result<(), String> {
    for (index, key) in keys.iter().enumerate() {
        let public = key.public();
        if !listed.iter().any(|listed| listed.key == public) {
            return Err(format!(
                "seed {} belongs to the public key {}, which is not configured",
                index + 1,
                public.hex()
            ));
        }
        let probe = b"budget-authority evidence probe";
        if !public.verifies(probe, &key.sign(probe)) {
            return Err(format!("seed {} does not make valid signatures", index + 1));
        }
    }
    let signs = |listed: &&ListedKey| listed.until_ms.is_none_or(|until_ms| now_ms < until_ms);
    for listed in listed.iter().filter(signs) {
        if !keys.iter().any(|key| key.public() == listed.key) {
            return Err(format!(
                "the key `{}` signs now or later, but its seed is missing",
                listed.kid
            ));
        }
    }
    Ok(())
}
