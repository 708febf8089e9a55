//! Reads keys and seeds. No reason repeats a seed.

use crate::domain::json::Json;
use crate::evidence::{ListedKey, PublicKey, SigningKey};

/// Digits of a public key that are its id unless it has another.
const KID_DIGITS: usize = 16;
/// The last millisecond of the year 9999, the greatest time that is accepted.
const TIME_MAX: i64 = 253_402_300_799_999;

/// Reads the list of further keys. The reason names the entry.
pub(super) fn listed_keys(text: &str) -> Result<Vec<ListedKey>, String> {
    let list = Json::parse(text.as_bytes()).map_err(|error| format!("it is no JSON: {error}"))?;
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
        return Err(format!("`{other}` is none of its members ({known})"));
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

/// A key and its window. Its id is made from its digits unless it has one.
pub(super) fn listed(
    digits: &str,
    kid: Option<String>,
    from_ms: Option<i64>,
    until_ms: Option<i64>,
) -> Result<ListedKey, String> {
    let key = PublicKey::parse(digits)
        .ok_or("a public key has 64 lower-case hexadecimal digits, and not any will do")?;
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

/// Reads a list of seeds, separated by commas or lines. The reason repeats none.
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

/// Whether the seeds fit the keys, and those are all there that sign from now on.
pub(super) fn pair(listed: &[ListedKey], keys: &[SigningKey], now_ms: i64) -> Result<(), String> {
    for (index, key) in keys.iter().enumerate() {
        let public = key.public();
        if !listed.iter().any(|listed| listed.key == public) {
            return Err(format!(
                "seed {} is that of the public key {}, which is not configured",
                index + 1,
                public.hex()
            ));
        }
        let probe = b"budget-authority evidence probe";
        if !public.verifies(probe, &key.sign(probe)) {
            return Err(format!("seed {} makes no valid signature", index + 1));
        }
    }
    let signs = |listed: &&ListedKey| listed.until_ms.is_none_or(|until_ms| now_ms < until_ms);
    for listed in listed.iter().filter(signs) {
        if !keys.iter().any(|key| key.public() == listed.key) {
            return Err(format!(
                "the seed of the key `{}` is missing, which signs now or later",
                listed.kid
            ));
        }
    }
    Ok(())
}
