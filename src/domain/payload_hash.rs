//! Digests of requests: they distinguish a repeated request from another request under the same idempotency key.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

use super::evidence::AttestedRequest;
use super::ids::{ascii, base64, text_id};
use super::json::{Json, Name};

/// Members whose values are the client's own: inside them a `null` is data.
const FREE_MEMBERS: [&str; 4] = ["metadata", "custom", "dimensions", "policy_keys"];

text_id! {
    /// The first 128 bits of the SHA-256 over a request's canonical form, 22 characters base64url.
    PayloadHash
}

/// A request with the digest that distinguishes a replay from another request.
#[derive(Debug, Clone)]
pub struct HashedRequest<T> {
    /// The request.
    pub request: T,
    /// Over its canonical form.
    pub payload_hash: PayloadHash,
    /// The inputs of its evidence; none while evidence is off.
    pub attested: Option<AttestedRequest>,
}

impl PayloadHash {
    /// Over a body. Equivalent bodies hash the same: member order, white space, an absent optional member and its `null`,
    /// `dry_run: false` and `grace_period_ms: 5000` (fixed defaults) and their absence.
    pub fn of_body(body: &Json) -> Self {
        Self::with_canonical(body).0
    }

    /// The same, with the canonical form if it is that of the whole body.
    pub fn with_canonical(body: &Json) -> (Self, Option<String>) {
        let normalized = normalized(body);
        let canonical = normalized.canonical();
        let is_whole = matches!(normalized, Cow::Borrowed(_));
        (
            Self::of_canonical(&canonical),
            is_whole.then_some(canonical),
        )
    }

    /// Over a body that changes some members of a record, in which `null` means to remove, and what names the record.
    pub fn of_patch_and_target(body: &Json, target: &[(&str, &str)]) -> Self {
        let (target, body) = (named(target).canonical(), body.canonical());
        Self::of_canonical(&format!("[{target},{body}]"))
    }

    /// Over a body and the query parameters that select what it is applied to, in a fixed order of the caller's.
    pub fn of_body_and_target(body: &Json, target: &[(&str, &str)]) -> Self {
        Self::of_patch_and_target(&normalized(body), target)
    }

    /// The same request of one caller alone.
    pub fn of_caller(&self, identity: &[u8]) -> Self {
        let digest = Sha256::new()
            .chain_update(self.as_str())
            .chain_update(identity)
            .finalize();
        Self(ascii(&base64::<22>(&digest[..16])).into())
    }

    /// Over a canonical form.
    pub fn of_canonical(canonical: &str) -> Self {
        let digest = Sha256::digest(canonical);
        Self(ascii(&base64::<22>(&digest[..16])).into())
    }
}

fn named(target: &[(&str, &str)]) -> Json {
    let members = target.iter().copied();
    Json::from_iter(members.map(|(name, value)| (name.to_owned(), Json::from(value))))
}

/// The body without what is as good as absent. Most bodies hold nothing of the kind and are not copied.
fn normalized(body: &Json) -> Cow<'_, Json> {
    let Json::Object(members) = body else {
        return Cow::Borrowed(body);
    };
    if !has_nulls(body) && !members.iter().any(is_fixed_default) {
        return Cow::Borrowed(body);
    }
    let mut members = members_without_nulls(members);
    members.retain(|member| !is_fixed_default(member));
    Cow::Owned(Json::Object(members))
}

fn has_nulls(json: &Json) -> bool {
    let Json::Object(members) = json else {
        return false;
    };
    let null =
        |(name, value): &(Name, Json)| *value == Json::Null || (!is_free(name) && has_nulls(value));
    members.iter().any(null)
}

fn is_free(name: &str) -> bool {
    FREE_MEMBERS.contains(&name)
}

/// Drops `null` members of typed objects. Free members stay unchanged, `null` included.
fn members_without_nulls(members: &[(Name, Json)]) -> Vec<(Name, Json)> {
    let kept = members.iter().filter(|(_, value)| *value != Json::Null);
    let cleaned = kept.map(|(name, value)| {
        let value = match value {
            Json::Object(inner) if !is_free(name) => Json::Object(members_without_nulls(inner)),
            other => other.clone(),
        };
        (name.clone(), value)
    });
    cleaned.collect()
}

fn is_fixed_default((name, value): &(Name, Json)) -> bool {
    match (name.as_str(), value) {
        ("dry_run", Json::Bool(false)) => true,
        ("grace_period_ms", Json::Number(literal)) => literal == "5000",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(text: &str) -> String {
        PayloadHash::of_body(&Json::parse(text.as_bytes()).unwrap()).to_string()
    }

    const BODY: &str = r#"{"idempotency_key":"k","subject":{"tenant":"acme"},"estimate":{"unit":"TOKENS","amount":300},"metadata":{"a":1,"b":null}}"#;

    #[test]
    fn equivalent_bodies_have_the_same_hash() {
        assert_eq!(hash(BODY).len(), 22);
        for same in [
            r#"{ "metadata":{"b":null,"a":1}, "estimate":{"amount":300,"unit":"TOKENS"},"subject":{"tenant":"acme"},"idempotency_key":"k" }"#,
            &BODY.replace(r#""metadata""#, r#""ttl_ms":null,"metadata""#),
            &BODY.replace(r#"{"tenant":"acme"}"#, r#"{"tenant":"acme","agent":null}"#),
            &BODY.replace(
                r#""metadata""#,
                r#""dry_run":false,"grace_period_ms":5000,"metadata""#,
            ),
            &BODY.replace("acme", "\\u0061cme"),
        ] {
            assert_eq!(hash(BODY), hash(same), "{same}");
        }
    }

    #[test]
    fn different_bodies_have_different_hashes() {
        for other in [
            BODY.replace(r#","b":null"#, ""),
            BODY.replace("300", "301"),
            BODY.replace(r#""k""#, r#""K""#),
            BODY.replace(r#""metadata""#, r#""ttl_ms":60000,"metadata""#),
            BODY.replace(r#""metadata""#, r#""dry_run":true,"metadata""#),
            BODY.replace(
                r#""metadata""#,
                r#""overage_policy":"ALLOW_IF_AVAILABLE","metadata""#,
            ),
            BODY.replace(r#""a":1"#, r#""a":1,"dry_run":false"#),
            BODY.replace(r#""a":1"#, r#""a":"1""#),
        ] {
            assert_ne!(hash(BODY), hash(&other), "{other}");
        }
        let of_amount = |amount| hash(&BODY.replace("300", amount));
        assert_ne!(of_amount("9007199254740992"), of_amount("9007199254740993"));
    }

    #[test]
    fn the_target_is_part_of_the_hash() {
        let body = Json::parse(BODY.as_bytes()).unwrap();
        let hash =
            |scope| PayloadHash::of_body_and_target(&body, &[("scope", scope), ("unit", "TOKENS")]);
        assert_eq!(hash("tenant:acme"), hash("tenant:acme"));
        assert_ne!(hash("tenant:acme"), hash("tenant:acme/app:x"));
        assert_ne!(hash("tenant:acme"), PayloadHash::of_body(&body));
    }
}
