//! Variants of envelopes: of each byte, and of each member.

use budget_authority::domain::json::Json;

use super::{Corpus, by_itself, by_name, json, key, key_set_of_one, payloads, signed};

/// Every byte of an envelope, altered, left out, and the last one of a shorter envelope.
pub(super) fn of_bytes(corpus: &mut Corpus) {
    let set = key_set_of_one();
    let payload = &payloads()[8];
    for (whole, document, bits) in [
        ("raw", by_itself(payload), [0, 5]),
        ("named", by_name(payload), [1, 6]),
    ] {
        corpus.push(whole.to_owned(), document.clone(), Some(&set));
        corpus.push(format!("{whole} alone"), document.clone(), None);
        for at in 0..document.len() {
            for bit in bits {
                let mut bytes = document.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                corpus.push(
                    format!("{whole}: bit {bit} of byte {at}"),
                    bytes,
                    Some(&set),
                );
            }
            let mut bytes = document.clone().into_bytes();
            match whole {
                "raw" => drop(bytes.remove(at)),
                _ => bytes.truncate(at),
            }
            corpus.push(format!("{whole}: without byte {at}"), bytes, Some(&set));
        }
    }
}

/// Every member taken away, changed, added or repeated: as a forger without a key would, and signed anew.
pub(super) fn of_members(corpus: &mut Corpus) {
    let set = key_set_of_one();
    let values = Values::new();
    for (number, payload) in payloads().iter().enumerate() {
        let document = json(&by_itself(payload));
        corpus.push(format!("payload {number}"), document.rfc8785(), Some(&set));
        let mut variants = Vec::new();
        each_variant(&document, &values, &mut |variant| variants.push(variant));
        for (at, variant) in variants.into_iter().enumerate() {
            let name = format!("payload {number}, variant {at}");
            let text = variant.compact();
            if at % 10 == 0 {
                corpus.push(
                    format!("{name}, unsigned: {text}"),
                    text.clone(),
                    Some(&set),
                );
            }
            let again = signed(variant, &key(1)).compact();
            corpus.push(format!("{name}: {again}"), again, Some(&set));
        }
        repeat(corpus, &document.rfc8785(), &set);
    }
}

/// Each member of each object once more, with the same value or another, on either side.
fn repeat(corpus: &mut Corpus, document: &str, set: &str) {
    for (end, _) in document.match_indices("\":") {
        let begin = document[..end].rfind('"').expect("a name begins");
        let name = &document[begin..end + 2];
        for (at, repeated) in [
            (begin, format!("{name}null,")),
            (begin, format!("{name}\"x\",")),
        ] {
            let twice = format!("{}{repeated}{}", &document[..at], &document[at..]);
            corpus.push(format!("{name} twice"), twice, Some(set));
        }
    }
}

/// Values that a member is changed to: some of its own kind around each bound that there is, and a few of other kinds.
struct Values {
    any: Vec<Json>,
    numbers: Vec<Json>,
    texts: Vec<Json>,
    arrays: Vec<Json>,
    objects: Vec<Json>,
}

impl Values {
    fn new() -> Self {
        let numbers = [
            "-9223372036854775808",
            "-1",
            "0",
            "-0",
            "399",
            "400",
            "599",
            "600",
            "999",
            "1000",
            "60000",
            "60001",
            "86400000",
            "86400001",
            "1.0",
            "1e3",
            "1.5",
            "9007199254740992",
            "9007199254740993",
            "9223372036854774784",
            "9223372036854775807",
            "9223372036854776000",
            "10000000000000000000",
            "1e21",
        ];
        let lengths =
            [0, 1, 64, 65, 128, 129, 256, 257].map(|length| Json::from(&*"é".repeat(length)));
        let words = ["DENY", "ALLOW", "ALLOW_WITH_CAPS", "REJECT"].map(Json::from);
        let array = |item: Json, count| Json::Array(vec![item; count]);
        let labels = |count: usize, value: &str| {
            (0..count)
                .map(|at| (format!("l{at}"), json(value)))
                .collect()
        };
        Self {
            any: ["null", "true", "1", "\"x\"", "[]", "{}"]
                .map(json)
                .to_vec(),
            numbers: numbers.map(json).to_vec(),
            texts: [&lengths[..], &words, &["😀".repeat(128).as_str().into()]].concat(),
            arrays: vec![
                array(Json::from("x"), 10),
                array(Json::from("x"), 11),
                array(Json::from(1), 1),
            ],
            objects: vec![
                labels(16, "\"x\""),
                labels(17, "\"x\""),
                labels(1, "null"),
                json(r#"{"unit":"TOKENS","amount":1}"#),
            ],
        }
    }

    fn instead_of(&self, json: &Json) -> impl Iterator<Item = &Json> {
        let own = match json {
            Json::Number(_) => &self.numbers[..],
            Json::String(_) => &self.texts,
            Json::Array(_) => &self.arrays,
            Json::Object(_) => &self.objects,
            Json::Null | Json::Bool(_) => &[],
        };
        self.any.iter().chain(own)
    }
}

/// Passes on every variant of a value that differs in one place.
fn each_variant(json: &Json, values: &Values, pass: &mut dyn FnMut(Json)) {
    for other in values.instead_of(json).filter(|other| *other != json) {
        pass(other.clone());
    }
    match json {
        Json::Object(members) => {
            for at in 0..members.len() {
                let mut fewer = members.clone();
                fewer.remove(at);
                pass(Json::Object(fewer));
                let mut renamed = members.clone();
                renamed[at].0 = format!("{}_", members[at].0).into();
                pass(Json::Object(renamed));
                each_variant(&members[at].1, values, &mut |inner| {
                    let mut changed = members.clone();
                    changed[at].1 = inner;
                    pass(Json::Object(changed));
                });
            }
            for name in [
                "more",
                "dry_run",
                "reservation_id",
                "expires_at_ms",
                "caps",
                "trace_id",
                "remaining_ttl_ms",
            ] {
                if json.member(name).is_none() {
                    let mut more = members.clone();
                    more.push((name.into(), Json::from("5b8efff798038103d269b633813fc60c")));
                    pass(Json::Object(more));
                }
            }
        }
        Json::Array(items) => {
            let mut more = items.clone();
            more.push(Json::from(1));
            pass(Json::Array(more));
            if let [first, ..] = &items[..] {
                each_variant(first, values, &mut |inner| {
                    let mut changed = items.clone();
                    changed[0] = inner;
                    pass(Json::Array(changed));
                });
            }
        }
        _ => {}
    }
}
