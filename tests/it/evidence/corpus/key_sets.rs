//! Key sets: of the right key, of others, with windows all around the time of the envelope, and damaged ones.

use budget_authority::domain::dialect::Dialect;
use budget_authority::evidence::{KeySet, ListedKey};

use super::{AT_MS, Corpus, by_itself, by_name, key, payloads};

/// A key of a set: its id, which key it is, and its window.
type Listed = (&'static str, u8, i64, Option<i64>);

/// A key set.
pub(super) fn set(keys: &[Listed]) -> String {
    let listed = |(kid, first, from_ms, until_ms): &Listed| ListedKey {
        kid: (*kid).to_owned(),
        key: key(*first).public(),
        from_ms: *from_ms,
        until_ms: *until_ms,
    };
    let keys = keys.iter().map(listed).collect();
    KeySet { keys }.json(Dialect::Service).compact()
}

/// A key set with one key under this id, whatever its bytes.
pub(super) fn with_x(kid: &'static str, x: &str) -> String {
    set(&[(kid, 1, 0, None)]).replace(&key(1).public().base64(), x)
}

/// All of them, with an envelope by a key that names itself, one by a name of the set, and one that was altered.
pub(super) fn all(corpus: &mut Corpus) {
    let payload = &payloads()[8];
    let documents = [
        by_itself(payload),
        by_name(payload),
        by_name(payload).replacen("done", "gone", 1),
    ];
    let mut push = |set: &[u8]| {
        for (at, document) in documents.iter().enumerate() {
            let name = format!("document {at} with {}", String::from_utf8_lossy(set));
            corpus.push(name, document.clone(), None);
            let case = corpus.cases.last_mut().expect("just pushed");
            case.set = Some(set.to_vec());
        }
    };
    for keys in windows() {
        push(set(&keys).as_bytes());
    }
    let two = set(&[("a", 1, 0, Some(AT_MS + 1)), ("b", 2, 5, None)]);
    for at in 0..two.len() {
        for bit in [0, 5] {
            let mut bytes = two.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            push(&bytes);
        }
    }
    for whole in [
        "",
        "{}",
        "[]",
        "null",
        "<html>",
        r#"{"keys":{}}"#,
        r#"{"keys":null}"#,
        r#"{"keys":[]}"#,
        r#"{"keys":[1,null,"x",[],{}]}"#,
    ] {
        push(whole.as_bytes());
    }
    let one = set(&[("a", 1, 0, Some(AT_MS + 1))]);
    for (from, to) in changes() {
        let changed = one.replacen(from, &to, 1);
        assert_ne!(changed, one, "{from}");
        push(changed.as_bytes());
        // Beside a good one, it counts or it does not.
        push(two.replacen(from, &to, 1).as_bytes());
    }
    for x in POINTS {
        push(with_x("a", x).as_bytes());
        push(
            one.replacen("]}", &format!(",{}", &with_x("a", x)[9..]), 1)
                .as_bytes(),
        );
    }
    for levels in [60, 61, 62, 63, 64, 100] {
        let deep = format!("{{\"more\":{}{},", "[".repeat(levels), "]".repeat(levels));
        push(one.replacen('{', &deep, 1).as_bytes());
    }
    push(&[b"\xef\xbb\xbf".as_slice(), one.as_bytes()].concat());
    push(&[one.as_bytes(), b"\xff"].concat());
}

fn windows() -> Vec<Vec<Listed>> {
    let mut windows = vec![
        vec![],
        vec![("b", 1, 0, None)],
        vec![("a", 2, 0, None)],
        vec![("a", 2, 0, Some(5))],
        vec![("a", 1, 0, Some(5))],
        vec![("a", 1, 0, None), ("b", 1, 5, None)],
        vec![("a", 1, 0, None), ("a", 2, 0, None)],
        vec![("a", 2, 0, None), ("a", 1, 0, None)],
        vec![("a", 1, 0, None), ("a", 1, 0, None)],
        vec![("a", 1, 0, Some(5)), ("a", 1, 5, None)],
        vec![("a", 2, 0, Some(5)), ("a", 1, 5, None)],
        vec![("a", 1, 0, Some(5)), ("a", 2, 5, None)],
        vec![("a", 1, 0, Some(5)), ("a", 2, 5, Some(9))],
        vec![("a", 1, 0, None), ("b", 2, 0, None)],
        vec![("b", 1, 0, None), ("a", 2, 0, None)],
    ];
    for from_ms in [i64::MIN, -1, 0, AT_MS - 1, AT_MS, AT_MS + 1, i64::MAX] {
        for until_ms in [
            None,
            Some(i64::MIN),
            Some(AT_MS - 1),
            Some(AT_MS),
            Some(AT_MS + 1),
            Some(i64::MAX),
        ] {
            windows.push(vec![("a", 1, from_ms, until_ms)]);
        }
    }
    windows
}

/// Changes to an entry that make it invalid, or only seem to.
fn changes() -> Vec<(&'static str, String)> {
    let x = key(1).public().base64();
    let from = |from: &'static str, to: &[&str]| {
        to.iter()
            .map(move |to| (from, (*to).to_owned()))
            .collect::<Vec<_>>()
    };
    [
        from("\"OKP\"", &["\"okp\"", "\"EC\"", "null", "1", "[]"]),
        from("\"Ed25519\"", &["\"ed25519\"", "\"X25519\"", "null"]),
        from(
            "\"EdDSA\"",
            &[
                "null",
                "\"ES256\"",
                "\"eddsa\"",
                "\"\"",
                "1",
                "[]",
                "{}",
                "false",
            ],
        ),
        from("\"alg\":\"EdDSA\",", &[""]),
        from(
            "\"kty\":\"OKP\",",
            &["", "\"kty\":\"OKP\",\"kty\":\"OKP\","],
        ),
        from(
            "\"kid\":\"a\"",
            &[
                "\"kid\":\"\"",
                "\"kid\":null",
                "\"kid\":1",
                "\"kid\":[]",
                "\"kid\":\"\\u0061\"",
                "\"kid\":\"\\ud800\"",
                "\"kid\":{}",
            ],
        ),
        from("\"kid\":\"a\",", &[""]),
        from(
            "_nbf_ms\":0",
            &[
                "_nbf_ms\":null",
                "_nbf_ms\":\"0\"",
                "_nbf_ms\":0.0",
                "_nbf_ms\":-0",
                "_nbf_ms\":0e0",
                "_nbf_ms\":true",
                "_nbf_ms\":1e400",
                "_nbf_ms\":9223372036854775808",
                "_nbf_ms\":-9223372036854775809",
                "_from_ms\":0",
                "_nbf_ms\":9007199254740993",
                "_nbf_ms\":NaN",
            ],
        ),
        from(
            "\"service_exp_ms\":1790000000124",
            &[
                "\"service_exp_ms\":null",
                "\"service_exp_ms\":\"1\"",
                "\"service_exp_ms\":false",
                "\"service_exp_ms\":1.79e12",
                "\"cycles_exp_ms\":1",
                "\"service_exp_ms\":9223372036854775808",
            ],
        ),
        from("service_nbf_ms", &["cycles_nbf_ms"]),
        from(
            "\"status\":\"retired\"",
            &[
                "\"status\":\"active\"",
                "\"status\":7",
                "\"more\":{\"a\":[1]}",
            ],
        ),
        from(
            "{\"keys\"",
            &["{\"more\":1,\"keys\"", "{\"keys\":[],\"keys\"", "{\"Keys\""],
        ),
        vec![
            ("\"x\":\"", "\"x\":\" ".to_owned()),
            ("\"x\":\"", "\"y\":\"".to_owned()),
            ("\"x\":\"", format!("\"x\":\"{x}\",\"y\":\"")),
            ("\"x\":\"", "\"x\":\"\",\"y\":\"".to_owned()),
            ("\"x\":\"", "\"x\":null,\"y\":\"".to_owned()),
            ("\"x\":\"", "\"x\":[1],\"y\":\"".to_owned()),
            ("\"x\":\"", format!("\"x\":\"{x}=\",\"y\":\"")),
            ("\"x\":\"", format!("\"x\":\"{x}==\",\"y\":\"")),
            (
                "\"x\":\"",
                format!(
                    "\"x\":\"{}\",\"y\":\"",
                    x.replace('-', "+").replace('_', "/")
                ),
            ),
            (
                "\"x\":\"",
                format!("\"x\":\"{}\\n{}\",\"y\":\"", &x[..20], &x[20..]),
            ),
            ("\"x\":\"", format!("\"x\":\"{}\",\"y\":\"", &x[..42])),
            ("\"x\":\"", format!("\"x\":\"{x}A\",\"y\":\"")),
            ("\"x\":\"", format!("\"x\":\"{}é\",\"y\":\"", &x[..42])),
        ],
    ]
    .concat()
}

/// Bytes that are no key: not of the curve, of small order, beyond the field. The last one ends in bits that no byte has.
const POINTS: [&str; 10] = [
    "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAIA",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAIA",
    "7P________________________________________8",
    "7f________________________________________8",
    "7v________________________________________8",
    "AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "JuiVj8KyJ7BFw_SJ8u-Y8NXfrAXTxjM5sTgCiG1T_AU",
    "AwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB",
];
