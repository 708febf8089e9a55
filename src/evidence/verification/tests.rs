mod artifacts;

use super::*;
use crate::domain::ids::TraceId;
use crate::domain::json::Canonical;
use crate::evidence::envelope::{Statement, Unsigned};
use crate::evidence::issuers::{Issuer, ServerId};
use crate::evidence::keys::SigningKey;
use crate::evidence::payload::Payload;
use crate::evidence::schema::Endpoint;
use Disposition::{
    Authentic, BindingOnly, SignatureInvalid, SignerAuthorityFailed, SignerResolutionFailed,
};

const SERVER: &str = "https://authority.example.com/v1";
const AT_MS: i64 = 1_790_000_000_123;

fn key(first: u8) -> SigningKey {
    SigningKey::parse(&format!("{first:02x}{}", "07".repeat(31))).expect("a seed")
}

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).expect("JSON")
}

fn canonical(text: &str) -> Canonical {
    Canonical::of_json(&json(text))
}

/// An envelope of a refused release, signed by a key.
fn document(signer: Signer, key: &SigningKey) -> String {
    let issuer = Issuer {
        dialect: Dialect::Service,
        server_id: ServerId::parse(SERVER).expect("a server id"),
        signer,
    };
    let payload = Payload {
        endpoint: Endpoint::Release,
        refused: Some(409),
        request: Some(canonical(r#"{"idempotency_key":"k","reason":"done, ü"}"#)),
        reservation_id: Some("rsv_1".to_owned()),
        response: canonical(
            r#"{"error":"RESERVATION_FINALIZED","message":"m","request_id":"r","details":{"a":0.5,"b":[12,null,true]}}"#,
        ),
    };
    let statement = Statement {
        issued_at_ms: AT_MS,
        trace_id: TraceId::parse("5b8efff798038103d269b633813fc60c"),
        payload,
    };
    let unsigned = Unsigned::new(&issuer, &statement).expect("an envelope");
    unsigned.sign(key)
}

fn raw() -> String {
    document(Signer::Raw(key(1).public()), &key(1))
}

fn listed(kid: &str) -> Signer {
    let server_id = ServerId::parse(SERVER).expect("a server id");
    Signer::listed(Dialect::Service, &server_id, kid)
}

/// A key set: id, key, and window of each.
fn set(keys: &[(&str, u8, i64, Option<i64>)]) -> String {
    let listed = |(kid, first, from_ms, until_ms): &(&str, u8, i64, Option<i64>)| ListedKey {
        kid: (*kid).to_owned(),
        key: key(*first).public(),
        from_ms: *from_ms,
        until_ms: *until_ms,
    };
    let keys = keys.iter().map(listed).collect();
    KeySet { keys }.json(Dialect::Service).compact()
}

fn with_set(document: &str, set: &str) -> Disposition {
    verify(document.as_bytes(), Keys::Set(set.as_bytes()), None, None).disposition
}

fn alone(document: &str) -> Disposition {
    verify(document.as_bytes(), Keys::Absent, None, None).disposition
}

#[test]
fn a_raw_key_binds_and_a_key_set_gives_authority() {
    let document = raw();
    assert_eq!(alone(&document), BindingOnly);
    let unavailable = verify(document.as_bytes(), Keys::Unavailable, None, None);
    assert_eq!(unavailable.disposition, SignerResolutionFailed);
    for (keys, disposition) in [
        (&[("a", 1, AT_MS, None)][..], Authentic),
        (&[("a", 1, 0, Some(AT_MS + 1))], Authentic),
        (&[("a", 1, 0, Some(AT_MS))], SignerAuthorityFailed),
        (&[("a", 1, AT_MS + 1, None)], SignerAuthorityFailed),
        (&[("a", 2, 0, None)], SignerAuthorityFailed),
        (&[], SignerAuthorityFailed),
        // A reader cannot know whether two entries of one key are a repetition.
        (
            &[("a", 1, 0, None), ("b", 1, 5, None)],
            SignerAuthorityFailed,
        ),
        (&[("a", 1, 0, None), ("a", 2, 0, None)], Authentic),
        (&[("a", 1, 0, Some(5)), ("a", 1, 5, None)], Authentic),
    ] {
        assert_eq!(with_set(&document, &set(keys)), disposition, "{keys:?}");
    }
    assert_eq!(with_set(&document, "<html>"), SignerResolutionFailed);
    assert_eq!(with_set(&document, "{}"), SignerResolutionFailed);
}

#[test]
fn a_listed_key_needs_its_set() {
    let document = document(listed("a"), &key(1));
    assert_eq!(alone(&document), SignerResolutionFailed);
    for (keys, disposition) in [
        (&[("a", 1, AT_MS, Some(AT_MS + 1))][..], Authentic),
        (&[("a", 1, 0, Some(AT_MS))], SignerAuthorityFailed),
        (&[("a", 1, AT_MS + 1, None)], SignerAuthorityFailed),
        (&[("b", 1, 0, None)], SignerAuthorityFailed),
        (&[("a", 2, 0, None)], SignatureInvalid),
        // The signature is judged before the window.
        (&[("a", 2, 0, Some(5))], SignatureInvalid),
        (&[("a", 1, 0, Some(5))], SignerAuthorityFailed),
        // An id may return in another window.
        (&[("a", 2, 0, Some(5)), ("a", 1, 5, None)], Authentic),
        (
            &[("a", 1, 0, None), ("a", 2, 0, None)],
            SignerAuthorityFailed,
        ),
        (&[("a", 1, 0, None), ("b", 2, 0, None)], Authentic),
    ] {
        assert_eq!(with_set(&document, &set(keys)), disposition, "{keys:?}");
    }
}

#[test]
fn the_name_of_a_listed_key_binds_it_to_its_server() {
    let elsewhere = ServerId::parse("https://other.example/v1").expect("a server id");
    let document = document(Signer::listed(Dialect::Service, &elsewhere, "a"), &key(1));
    assert_eq!(
        with_set(&document, &set(&[("a", 1, 0, None)])),
        SignerAuthorityFailed
    );
    // A forgery is named as such even so.
    assert_eq!(
        with_set(&document, &set(&[("a", 2, 0, None)])),
        SignatureInvalid
    );
}

#[test]
fn a_pin_is_compared_with_the_key() {
    let (mine, other) = (key(1).public(), key(2).public());
    let pinned = |document: &str, keys: Keys<'_>, pin| {
        let found = verify(document.as_bytes(), keys, Some(pin), None);
        (found.disposition, found.pin_matched)
    };
    let (raw, named) = (raw(), document(listed("a"), &key(1)));
    assert_eq!(pinned(&raw, Keys::Absent, &mine), (BindingOnly, Some(true)));
    assert_eq!(
        pinned(&raw, Keys::Absent, &other),
        (BindingOnly, Some(false))
    );
    assert_eq!(
        pinned(&named, Keys::Absent, &mine),
        (BindingOnly, Some(true))
    );
    // Without a set, or with one that cannot be read, the signature itself is tried.
    for keys in [Keys::Absent, Keys::Unavailable, Keys::Set(b"<html>")] {
        let refuted = (SignerResolutionFailed, Some(false));
        assert_eq!(pinned(&named, keys, &other), refuted, "{keys:?}");
    }
    for document in [&raw, &named] {
        let found = pinned(document, Keys::Unavailable, &mine);
        assert_eq!(found, (SignerResolutionFailed, Some(true)));
    }
    let set = set(&[("a", 1, 0, None)]);
    assert_eq!(
        pinned(&named, Keys::Set(set.as_bytes()), &mine),
        (Authentic, Some(true))
    );
    assert_eq!(
        pinned(&named, Keys::Set(set.as_bytes()), &other),
        (Authentic, Some(false))
    );
}

#[test]
fn an_unexpected_server_has_no_authority() {
    let (document, set) = (raw(), set(&[("a", 1, 0, None)]));
    let from = |server_id| {
        let found = verify(
            document.as_bytes(),
            Keys::Set(set.as_bytes()),
            None,
            Some(server_id),
        );
        found.disposition
    };
    assert_eq!(from(SERVER), Authentic);
    assert_eq!(
        from("https://authority.example.com/v1/"),
        SignerAuthorityFailed
    );
}

#[test]
fn every_altered_byte_of_an_envelope_refutes_it() {
    let document = raw();
    let keys = set(&[("a", 1, 0, None)]);
    for at in 0..document.len() {
        for bit in 0..8 {
            let mut bytes = document.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            let found = verify(&bytes, Keys::Set(keys.as_bytes()), None, None);
            assert_eq!(
                found.disposition, SignatureInvalid,
                "bit {bit} of byte {at}: {}",
                found.reason
            );
        }
    }
}

#[test]
fn order_and_white_space_do_not_matter() {
    let document = raw();
    let Json::Object(mut members) = json(&document) else {
        panic!("an object")
    };
    members.reverse();
    let reordered = Json::Object(members).compact().replace(',', " ,\n ");
    // The texts themselves hold a comma.
    let reordered = reordered.replace("done ,\n  ü", "done, ü");
    assert_ne!(document, reordered);
    assert_eq!(alone(&reordered), BindingOnly);
    assert_eq!(alone(&document.replace("0.5", "5e-1")), BindingOnly);
    assert_eq!(alone(&document.replace('ü', "\\u00fc")), BindingOnly);
    // Another spelling of the same letter is another text.
    assert_eq!(alone(&document.replace('ü', "u\u{308}")), SignatureInvalid);
}

/// Each member of each object once more, with the same value and with another, on either side.
#[test]
fn every_repeated_member_refutes_an_envelope() {
    let document = raw();
    let mut count = 0;
    let quote_ends = document.match_indices("\":").map(|(at, _)| at);
    for end in quote_ends {
        let begin = document[..end].rfind('"').expect("a name begins");
        if !document[..begin].ends_with(['{', ',']) {
            continue;
        }
        let name = &document[begin..end + 2];
        let value = value_at(&document[end + 2..]);
        for repeated in [
            format!("{name}{value},"),
            format!("{name}null,"),
            format!("{name}\"x\","),
        ] {
            let twice = format!("{}{repeated}{}", &document[..begin], &document[begin..]);
            assert_eq!(alone(&twice), SignatureInvalid, "{twice}");
        }
        let behind = end + 2 + value.len();
        let (before, after) = document.split_at(behind);
        let twice = format!("{before},{name}{value}{after}");
        assert_eq!(alone(&twice), SignatureInvalid, "{twice}");
        count += 1;
    }
    assert!(count > 15, "{count} members");
}

/// The text of the value that a text begins with.
fn value_at(text: &str) -> &str {
    let ends = (1..=text.len()).filter(|end| text.is_char_boundary(*end));
    let whole = |end: &usize| {
        // A number continues until something else follows.
        let continues =
            text[*end..].starts_with(|next: char| next.is_ascii_alphanumeric() || next == '.');
        !continues && Json::parse(&text.as_bytes()[..*end]).is_ok()
    };
    let end = ends.into_iter().find(whole).expect("a value");
    &text[..end]
}

/// As the raw form, by a key of the set.
#[test]
fn every_altered_byte_of_an_envelope_by_a_listed_key_refutes_it() {
    let document = document(listed("a"), &key(1));
    let keys = set(&[("a", 1, 0, None)]);
    for at in 0..document.len() {
        for bit in 0..8 {
            let mut bytes = document.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            let found = verify(&bytes, Keys::Set(keys.as_bytes()), None, None);
            let disposition = found.disposition;
            assert_eq!(disposition, SignatureInvalid, "bit {bit} of byte {at}");
        }
    }
}

/// Takes a member away, gives it another value, adds one: at each place of the envelope.
#[test]
fn every_changed_member_refutes_an_envelope() {
    let document = raw();
    let mut variants = Vec::new();
    vary(&json(&document), &mut |variant| {
        variants.push(variant.compact())
    });
    assert!(variants.len() > 100, "{} variants", variants.len());
    for variant in variants {
        assert_eq!(alone(&variant), SignatureInvalid, "{variant}");
    }
    for name in ["\"payload\":", "\"endpoint\":", "\"issued_at_ms\":"] {
        let twice = document.replacen(name, &format!("{name}1,{name}"), 1);
        assert_eq!(alone(&twice), SignatureInvalid, "{twice}");
    }
}

/// Passes on every variant of a value that differs in one place.
fn vary(json: &Json, pass: &mut dyn FnMut(Json)) {
    for other in [
        Json::Null,
        Json::Bool(false),
        Json::from(3),
        Json::from("x"),
        Json::Object(Vec::new()),
    ] {
        if other != *json {
            pass(other);
        }
    }
    match json {
        Json::Object(members) => {
            for at in 0..members.len() {
                let mut fewer = members.clone();
                fewer.remove(at);
                pass(Json::Object(fewer));
                vary(&members[at].1, &mut |inner| {
                    let mut changed = members.clone();
                    changed[at].1 = inner;
                    pass(Json::Object(changed));
                });
            }
            let mut more = members.clone();
            more.push(("more".into(), Json::from(1)));
            pass(Json::Object(more));
        }
        Json::Array(items) => {
            let mut fewer = items.clone();
            fewer.pop();
            pass(Json::Array(fewer));
            let reversed = items.iter().rev().cloned().collect();
            pass(Json::Array(reversed));
        }
        _ => {}
    }
}

#[test]
fn a_signature_of_another_key_or_text_is_refused() {
    let forged = document(Signer::Raw(key(1).public()), &key(2));
    assert_eq!(alone(&forged), SignatureInvalid);
    let (mine, other) = (
        json(&raw()),
        json(&document(Signer::Raw(key(2).public()), &key(2))),
    );
    let signature = other
        .member("signature")
        .and_then(Json::as_text)
        .expect("a text");
    let mut swapped = mine;
    super::set(&mut swapped, "signature", signature);
    assert_eq!(alone(&swapped.compact()), SignatureInvalid);
}
