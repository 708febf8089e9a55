//! Envelopes and key sets in which something is wrong, or looks so: what every verifier must judge alike.

mod key_sets;
mod members;
mod signatures;
mod texts;

use budget_authority::domain::ids::hex;
use budget_authority::domain::json::Json;
use budget_authority::evidence::SigningKey;
use sha2::{Digest, Sha256};

use crate::harness::evidence_keys::SERVER_ID;

/// When the envelopes were issued, by their own word.
pub(super) const AT_MS: i64 = 1_790_000_000_123;

/// Something to judge.
pub(super) struct Case {
    /// The change.
    pub name: String,
    pub envelope: Vec<u8>,
    /// The bytes of a key set, if there is one.
    pub set: Option<Vec<u8>>,
    /// The issuer that is expected, if one is.
    pub server_id: Option<&'static str>,
}

/// Cases, and what goes with each new one.
pub(super) struct Corpus {
    pub cases: Vec<Case>,
}

impl Corpus {
    /// All of it.
    pub fn new() -> Self {
        let mut corpus = Self { cases: Vec::new() };
        members::of_bytes(&mut corpus);
        members::of_members(&mut corpus);
        texts::all(&mut corpus);
        signatures::all(&mut corpus);
        key_sets::all(&mut corpus);
        corpus
    }

    fn push(&mut self, name: String, envelope: impl Into<Vec<u8>>, set: Option<&str>) {
        self.cases.push(Case {
            name,
            envelope: envelope.into(),
            set: set.map(|set| set.as_bytes().to_vec()),
            server_id: None,
        });
    }

    fn expecting(
        &mut self,
        name: &str,
        envelope: &str,
        set: Option<&str>,
        server_id: &'static str,
    ) {
        self.push(format!("{name}, expecting {server_id}"), envelope, set);
        let case = self.cases.last_mut().expect("just pushed");
        case.server_id = Some(server_id);
    }
}

/// One of a few keys.
fn key(first: u8) -> SigningKey {
    SigningKey::parse(&format!("{first:02x}{}", "07".repeat(31))).expect("a seed")
}

fn json(text: &str) -> Json {
    Json::parse_to_depth(text.as_bytes(), 128).expect(text)
}

/// The payloads from which envelopes are made.
fn payloads() -> Vec<Json> {
    include_str!("payloads.jsonl").lines().map(json).collect()
}

/// The name of a key of the set.
fn did(server_id: &str, kid: &str) -> String {
    format!("did:service:{}#{kid}", hex(&Sha256::digest(server_id)))
}

/// An envelope with any payload, signed.
fn envelope(payload: &Json, signer_did: &str, key: &SigningKey) -> String {
    let Json::Object(members) = payload else {
        panic!("an object")
    };
    let members = [
        ("schema_version", Json::from("service-evidence/v0.1")),
        ("artifact_type", Json::from(&*members[0].0)),
        ("server_id", Json::from(SERVER_ID)),
        ("signer_did", Json::from(signer_did)),
        ("issued_at_ms", Json::from(AT_MS)),
        ("trace_id", Json::from("5b8efff798038103d269b633813fc60c")),
        ("payload", payload.clone()),
        ("evidence_id", Json::from("")),
        ("signature", Json::from("")),
    ];
    signed(members.into_iter().collect(), key).rfc8785()
}

/// The payload in an envelope of the first key, which names itself.
fn by_itself(payload: &Json) -> String {
    envelope(payload, &key(1).public().hex(), &key(1))
}

/// The same by its name in the key set.
fn by_name(payload: &Json) -> String {
    envelope(payload, &did(SERVER_ID, "a"), &key(1))
}

/// Signs whatever it is anew, as a forger with a key can: id and signature fit the rest.
fn signed(mut envelope: Json, key: &SigningKey) -> Json {
    let mut with = |name: &str, text: &str| {
        if let Json::Object(members) = &mut envelope
            && let Some((_, value)) = members.iter_mut().find(|(known, _)| known == name)
        {
            *value = Json::from(text);
        }
        envelope.rfc8785()
    };
    with("signature", "");
    let id = hex(&Sha256::digest(with("evidence_id", "")));
    let signature = key.sign(with("evidence_id", &id).as_bytes());
    with("signature", &signature);
    envelope
}

/// A key set with one key, `a`.
fn key_set_of_one() -> String {
    key_sets::set(&[("a", 1, 0, None)])
}
