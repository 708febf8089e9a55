//! The entry point of the fuzzer, with bodies drawn at random around good ones.

#[path = "../../../fuzz/requests.rs"]
mod requests;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

use super::operations;

/// Pieces that break readers of JSON, or that they must keep apart.
const PIECES: [&str; 40] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\",
    "null",
    "true",
    "-0",
    "-0.0",
    "0",
    "1e3",
    "1E+2",
    "1e999",
    "1e-999",
    "0.1",
    "1.0",
    "9223372036854775807",
    "9223372036854775808",
    "1e21",
    "123456789012345678901",
    "\\u0000",
    "\\ud800",
    "\\ud83d\\ude00",
    "\\u0061",
    "\u{feff}",
    "\u{202e}",
    "é",
    "😀",
    " ",
    "\n",
    "\t",
    "\"a\":1,",
    "\"metadata\":{},",
    "\"idempotency_key\":\"k\"",
    "\"dry_run\":false,",
    "\u{7f}",
    "\u{2028}",
];

fn good() -> impl Strategy<Value = String> {
    let bodies: Vec<String> = operations("x")
        .iter()
        .map(|one| one.body.to_string())
        .collect();
    proptest::sample::select(bodies)
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            vec((".{0,6}", inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_bytes_are_read_without_harm(bytes in vec(any::<u8>(), 0..200)) {
        requests::check(&bytes);
    }

    #[test]
    fn pieces_of_json_in_any_order_are_read_without_harm(pieces in vec(proptest::sample::select(&PIECES[..]), 0..30)) {
        requests::check(pieces.concat().as_bytes());
    }

    #[test]
    fn mutated_bodies_do_no_harm(
        body in good(),
        changes in vec((any::<prop::sample::Index>(), 0..4_usize, proptest::sample::select(&PIECES[..])), 0..3),
    ) {
        let mut bytes = body.into_bytes();
        for (index, cut, piece) in changes {
            let at = index.index(bytes.len());
            let end = (at + cut).min(bytes.len());
            bytes.splice(at..end, piece.bytes());
        }
        requests::check(&bytes);
    }

    #[test]
    fn unknown_members_do_no_harm_in_good_bodies(
        body in good(),
        member in any::<prop::sample::Index>(),
        value in json(),
    ) {
        let mut body: Value = serde_json::from_str(&body).expect("JSON");
        let members = body.as_object_mut().expect("an object");
        let name = members.keys().nth(member.index(members.len())).cloned().expect("a member");
        members.insert(name, value.clone());
        requests::check(body.to_string().as_bytes());
        body["metadata"] = serde_json::json!({ "free": value });
        requests::check(body.to_string().as_bytes());
    }
}

#[test]
fn every_good_body_is_read_and_written_the_same() {
    for operation in operations("x") {
        requests::check(operation.body.to_string().as_bytes());
    }
}
