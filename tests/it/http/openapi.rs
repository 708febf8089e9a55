//! The served description of the API.

use budget_authority::api::dialect::Dialect;
use budget_authority::api::openapi::document;
use serde_json::{Value, json};

const SNAPSHOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots/openapi.json");

fn text(dialect: Dialect) -> String {
    let mut text = serde_json::to_string_pretty(&document(dialect)).expect("a document is JSON");
    text.push('\n');
    text
}

/// Run with `UPDATE_SNAPSHOTS=1` to accept a change; the difference then shows in the commit.
#[test]
fn the_description_changes_only_on_purpose() {
    let described = text(Dialect::Service);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(SNAPSHOT, &described).expect("the snapshot can be written");
    }
    let accepted = std::fs::read_to_string(SNAPSHOT).unwrap_or_default();
    let differs = described
        .lines()
        .zip(accepted.lines())
        .find(|(now, then)| now != then);
    assert_eq!(
        differs, None,
        "first line that differs; UPDATE_SNAPSHOTS=1 accepts it"
    );
    assert_eq!(described.len(), accepted.len());
}

#[test]
fn the_dialects_differ_only_in_names_and_default_permissions() {
    let service = text(Dialect::Service);
    let cycles = text(Dialect::Cycles);
    let mut translated = cycles.clone();
    for (ours, theirs) in [
        ("X-Cycles-", "X-Service-"),
        ("cycles_evidence_url", "service_evidence_url"),
        ("cycles_evidence", "evidence"),
        ("cycles-evidence/", "service-evidence/"),
        ("cycles-jwks.json", "service-jwks.json"),
        ("cycles_nbf_ms", "service_nbf_ms"),
        ("cycles_exp_ms", "service_exp_ms"),
        ("\"cycles-admin\"", "\"service-admin\""),
        ("cyc_live_", "sk_live_"),
    ] {
        assert!(cycles.contains(ours) && !service.contains(ours), "{ours}");
        assert!(theirs == "evidence" || !cycles.contains(theirs), "{theirs}");
        translated = translated.replace(ours, theirs);
    }
    let parse = |text: &str| {
        let mut document: Value = serde_json::from_str(text).expect("JSON");
        let request = &mut document["components"]["schemas"]["ApiKeyCreateRequest"];
        request["properties"]["permissions"]["default"].take();
        document
    };
    assert_eq!(parse(&translated), parse(&service));
}

#[test]
fn every_reference_resolves() {
    let document = document(Dialect::Service);
    let mut open = vec![&document];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) => {
                if let Some(Value::String(reference)) = members.get("$ref") {
                    let pointer = reference.strip_prefix('#').expect("a local reference");
                    assert!(document.pointer(pointer).is_some(), "{reference}");
                }
                open.extend(members.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
}

/// Verified objects are closed; described ones are open, so that readers accept members of later releases.
#[test]
fn e09_the_schema_of_evidence_is_open() {
    let document = document(Dialect::Service);
    for name in ["EvidenceEnvelope", "EvidenceJwks", "EvidenceJwk"] {
        let schema = &document["components"]["schemas"][name];
        assert_eq!(schema["type"], "object", "{name}");
        let mut open = vec![schema];
        while let Some(value) = open.pop() {
            match value {
                Value::Object(members) => {
                    for closed in ["additionalProperties", "unevaluatedProperties"] {
                        assert_eq!(members.get(closed), None, "{name}: {value}");
                    }
                    open.extend(members.values());
                }
                Value::Array(items) => open.extend(items),
                _ => {}
            }
        }
    }
}

#[test]
fn a_key_has_the_default_permissions_of_the_dialect() {
    for dialect in Dialect::ALL {
        let document = document(dialect);
        let request = &document["components"]["schemas"]["ApiKeyCreateRequest"]["properties"];
        let default = json!(dialect.words().default_permissions);
        assert_eq!(request["permissions"]["default"], default, "{dialect}");
    }
}
