//! Reads evidence keys and seeds. No error repeats a seed.

use crate::domain::json::Json;
use crate::evidence::{ListedKey, PublicKey, SigningKey};

/// How many digits of a public key make its default id.
const KID_DIGITS: usize = 16;
/// The last millisecond of the year 9999, the greatest time that is accepted.
const TIME_MAX: i64 = 253_402_300_799_999;

/// Reads the list of further keys. An error names the entry.
pub(super) fn listed_keys(text: &str) -> Result<Vec<ListedKey>, String> {
    let list = Json::parse(text.as_bytes()).map_err(|error| format!("it is not JSON: {error}"))?;
    let Json::Array(entries) = list else {
        return Err("it must be a JSON array of keys".to_owned());
    };
    let read = |(index, entry)| {
        listed_entry(entry).map_err(|reason| format!("entry {}: {reason}", index + 1))
    };
    entries.iter().enumerate().map(read).collect()
}

fn listed_entry(entry: &Json) -> Result<ListedKey, String> {
    const MEMBERS: [&str; 4] = ["public_key", "kid", "nbf_ms", "exp_ms"];
    let Json::Object(members) = entry else {
        return Err("it must be an object".to_owned());
    };
    if let Some((other, _)) = members
        .iter()
        .find(|(name, _)| !MEMBERS.contains(&name.as_ref()))
    {
        let known = MEMBERS.join(", ");
        return Err(format!("`{other}` is not one of its members ({known})"));
    }
    let given = |name| entry.member(name).filter(|given| **given != Json::Null);
    let time = |name| match given(name) {
        None => Ok(None),
        Some(time) => match time.as_integer() {
            Some(time) => Ok(Some(time)),
            None => Err(format!("`{name}` must be milliseconds since 1970")),
        },
    };
    let kid = match given("kid").map(Json::as_text) {
        Some(None) => return Err("`kid` must be a text".to_owned()),
        kid => kid.flatten().map(str::to_owned),
    };
    let digits = given("public_key").and_then(Json::as_text);
    listed(
        digits.unwrap_or_default(),
        kid,
        time("nbf_ms")?,
        time("exp_ms")?,
    )
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
