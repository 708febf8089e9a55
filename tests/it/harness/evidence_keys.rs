//! Keys of evidence, and an envelope that one of them signed.

use budget_authority::domain::dialect::Dialect;
use budget_authority::domain::ids::{EvidenceId, TraceId};
use budget_authority::domain::json::{Canonical, Json};
use budget_authority::evidence::{
    Endpoint, Issuers, ListedKey, Payload, ServerId, SignerForm, SigningKey, Statement, Unsigned,
};

/// The server id of tests that run no service.
pub const SERVER_ID: &str = "https://authority.example.com/v1";

/// The seed of one repeated digit.
pub fn seed(digit: char) -> String {
    digit.to_string().repeat(64)
}

/// The key pair of that seed.
pub fn key(digit: char) -> SigningKey {
    SigningKey::parse(&seed(digit)).expect("a seed")
}

/// That key and when it signs. Its id is the digit.
pub fn listed(digit: char, from_ms: i64, until_ms: Option<i64>) -> ListedKey {
    ListedKey {
        kid: digit.to_string(),
        key: key(digit).public(),
        from_ms,
        until_ms,
    }
}

/// A configuration of these keys, named by themselves.
pub fn issuers(keys: &[ListedKey]) -> Issuers {
    issuers_of(SERVER_ID, keys)
}

/// The same under another server id.
pub fn issuers_of(server_id: &str, keys: &[ListedKey]) -> Issuers {
    in_form(SignerForm::Raw, server_id, keys)
}

/// A configuration of these keys, named by the key set.
pub fn listed_issuers(keys: &[ListedKey]) -> Issuers {
    in_form(SignerForm::Listed, SERVER_ID, keys)
}

fn in_form(form: SignerForm, server_id: &str, keys: &[ListedKey]) -> Issuers {
    let server_id = ServerId::parse(server_id).expect("a server id");
    Issuers::new(Dialect::Service, server_id, form, keys.to_vec()).expect("windows")
}

/// The settings of a process with the key of a digit, from the beginning of time on.
pub fn settings(digit: char) -> [String; 6] {
    let public = key(digit).public().hex();
    [
        "--evidence-server-id",
        SERVER_ID,
        "--evidence-public-key",
        &public,
        "--evidence-nbf-ms",
        "0",
    ]
    .map(str::to_owned)
}

/// A decision at a time, signed by the first key of a configuration.
pub fn signed(issuers: &Issuers, digit: char, issued_at_ms: i64) -> (EvidenceId, String) {
    let canonical = |text: &str| Canonical::of_json(&Json::parse(text.as_bytes()).expect("JSON"));
    let request = canonical(
        r#"{"idempotency_key":"k","subject":{"tenant":"acme"},"action":{"kind":"llm","name":"m"},"estimate":{"unit":"TOKENS","amount":1}}"#,
    );
    let response = canonical(r#"{"decision":"ALLOW"}"#);
    let statement = Statement {
        issued_at_ms,
        trace_id: TraceId::parse("5b8efff798038103d269b633813fc60c"),
        payload: Payload::success(Endpoint::Decide, None, request, response),
    };
    let issuer = issuers.issuer(&issuers.key_set().keys[0]);
    let unsigned = Unsigned::new(&issuer, &statement).expect("it can be attested");
    let id = EvidenceId::parse(unsigned.evidence_id()).expect("an id");
    (id, unsigned.sign(&key(digit)))
}
