//! Envelopes by other keys, under other names, and with other signatures.

use budget_authority::domain::json::Json;

use super::{Corpus, by_itself, by_name, did, envelope, json, key, key_sets, payloads, signed};
use crate::harness::evidence_keys::SERVER_ID;

/// The order of the group, with which a signature can be made another one of the same text.
const ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

/// Signatures by others, of others, spelled otherwise; names of other keys and servers.
pub(super) fn all(corpus: &mut Corpus) {
    let set = key_sets::set(&[("a", 1, 0, None), ("b", 2, 0, None)]);
    let payload = &payloads()[8];
    let (raw, named) = (by_itself(payload), by_name(payload));
    for (name, document) in [("raw", &raw), ("named", &named)] {
        for server_id in [SERVER_ID, "https://authority.example.com/v1/", ""] {
            for set in [None, Some(&*set), Some("<html>")] {
                corpus.expecting(name, document, set, server_id);
                corpus.expecting(name, &document.replacen("done", "gone", 1), set, server_id);
            }
        }
    }
    let elsewhere = "https://other.example/v1";
    let digits = key(1).public().hex();
    let weak = format!("01{}", "00".repeat(31));
    for signer in [
        digits.as_str(),
        &key(2).public().hex(),
        &did(SERVER_ID, "a"),
        &did(SERVER_ID, "b"),
        &did(SERVER_ID, "c"),
        &did(SERVER_ID, ""),
        &did(SERVER_ID, "a#b"),
        &did(SERVER_ID, "a\n"),
        &did(elsewhere, "a"),
        &did(SERVER_ID, "a").to_uppercase(),
        &did(SERVER_ID, "a").replace("did:service", "did:cycles"),
        &did(SERVER_ID, "a").replace("did:service", "did:web"),
        &did(SERVER_ID, "a").replace('#', ""),
        &digits.to_uppercase(),
        &digits[1..],
        &format!("{digits}\n"),
        &format!("{digits}00"),
        &weak,
    ] {
        for by in [1, 2] {
            for set in [None, Some(&*set)] {
                corpus.push(
                    format!("signer {signer} by {by}"),
                    envelope(payload, signer, &key(by)),
                    set,
                );
            }
        }
    }
    for (from, to) in [
        ("service-evidence", "cycles-evidence"),
        ("service-evidence/v0.1", "service-evidence/v0.2"),
    ] {
        let other = signed(json(&raw.replace(from, to)), &key(1));
        corpus.push(to.to_owned(), other.compact(), Some(&set));
    }
    let cycles_set = set.replace("service_", "cycles_");
    for document in [&raw, &named] {
        let other = document
            .replace("service-evidence", "cycles-evidence")
            .replace("did:service", "did:cycles");
        let other = signed(json(&other), &key(1)).compact();
        for set in [None, Some(&*set), Some(&*cycles_set)] {
            corpus.push(format!("cycles: {other}"), other.clone(), set);
            let altered = other.replacen("done", "gone", 1);
            corpus.push(format!("cycles, altered: {altered}"), altered, set);
        }
        corpus.push(
            format!("keys of cycles: {document}"),
            document.as_str(),
            Some(&cycles_set),
        );
    }
    for server_id in [
        "",
        "x",
        "authority.example.com/v1",
        "https:",
        "urn:x",
        "HTTPS://a",
        "https://a b",
        "https://ä/v1",
        "https://a\n",
        "1a:b",
    ] {
        let other = signed(
            json(&raw.replace(SERVER_ID, &Json::from(server_id).compact().replace('"', ""))),
            &key(1),
        );
        corpus.push(format!("server {server_id}"), other.compact(), Some(&set));
    }
    let signature = json(&raw)
        .member("signature")
        .and_then(Json::as_text)
        .expect("a text")
        .to_owned();
    let by_another = json(&by_itself(&payloads()[7]));
    let by_another = by_another
        .member("signature")
        .and_then(Json::as_text)
        .expect("a text")
        .to_owned();
    let swapped = format!("{}{}", &signature[64..], &signature[..64]);
    let spaced = format!("{} {}", &signature[..64], &signature[65..]);
    let beyond = format!("{}{}", &signature[..64], plus_order(&signature[64..]));
    let nothing = format!("{weak}{}", "00".repeat(32));
    for other in [
        &signature.to_uppercase(),
        &by_another,
        &swapped,
        &spaced,
        &beyond,
        &nothing,
        &"0".repeat(128),
        "",
        &signature[2..],
        &format!("{signature}00"),
        &format!("{signature}\\n"),
        &format!(" {signature}"),
    ] {
        for document in [&raw, &named] {
            corpus.push(
                format!("signature {other}"),
                document.replacen(&signature_of(document), other, 1),
                Some(&set),
            );
        }
    }
    // Under the key of order 1 this is a signature of any text.
    for signer in [weak.clone(), did(SERVER_ID, "weak")] {
        let forged = envelope(payload, &signer, &key(1));
        let forged = forged.replacen(&signature_of(&forged), &nothing, 1);
        let set = key_sets::with_x("weak", "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
        for set in [None, Some(&*set)] {
            corpus.push(format!("weak {signer}"), forged.clone(), set);
        }
    }
}

fn signature_of(document: &str) -> String {
    json(document)
        .member("signature")
        .and_then(Json::as_text)
        .expect("a text")
        .to_owned()
}

/// Hexadecimal digits of a scalar, little end first, plus the order of the group.
fn plus_order(digits: &str) -> String {
    let mut carry = 0;
    let bytes = (0..32).map(|at| {
        let byte = u16::from_str_radix(&digits[2 * at..2 * at + 2], 16).expect("digits");
        let sum = byte + u16::from(ORDER[at]) + carry;
        carry = sum >> 8;
        format!("{:02x}", sum & 0xff)
    });
    bytes.collect()
}
