//! Bodies that are not JSON, or invalid in other ways: cut, doubled, padded, deep, huge.

use serde_json::{Value, json};

use super::{Operation, Target};

/// Pointers of all objects of a body, free ones included.
fn objects(value: &Value, pointer: String, found: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(members) => {
            found.push(pointer.clone());
            members
                .iter()
                .map(|(name, value)| (name.clone(), value))
                .collect()
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(n, v)| (n.to_string(), v))
            .collect(),
        _ => Vec::new(),
    };
    for (name, child) in children {
        objects(child, format!("{pointer}/{name}"), found);
    }
}

#[tokio::test]
async fn a_body_cut_at_any_byte_is_refused() {
    let target = Target::new().await;
    for operation in &target.operations {
        let body = operation.body.to_string();
        for cut in 0..body.len() {
            let what = format!("{} cut at {cut}", operation.name);
            let request = target
                .request(operation)
                .body(body.as_bytes()[..cut].to_vec());
            target
                .refused(&what, request, &["Malformed request body: "])
                .await;
        }
    }
    target.accepts_valid_bodies().await;
}

#[tokio::test]
async fn a_member_that_occurs_twice_is_refused_at_every_level() {
    let target = Target::new().await;
    for operation in &target.operations {
        let mut levels = Vec::new();
        objects(&operation.body, String::new(), &mut levels);
        for level in levels {
            let object = operation.body.pointer(&level).and_then(Value::as_object);
            let (name, value) = object.and_then(|o| o.iter().next()).expect("a member");
            let escaped = format!("\\u{:04x}{}", u32::from(name.as_bytes()[0]), &name[1..]);
            for (second, value) in [
                (name.as_str(), value.to_string()),
                (name.as_str(), "null".to_owned()),
                (escaped.as_str(), value.to_string()),
            ] {
                let mut body = operation.body.clone();
                body.pointer_mut(&level).expect("an object")["@@"] = json!(0);
                let body = body.to_string();
                let body = body.replacen("\"@@\":0", &format!("\"{second}\":{value}"), 1);
                let what = format!("{} {level}/{second} twice", operation.name);
                let request = target.request(operation).body(body);
                let named = ["duplicate member `", name.as_str()];
                target.refused(&what, request, &named).await;
            }
        }
    }
    target.accepts_valid_bodies().await;
}

#[tokio::test]
async fn bytes_that_are_not_json_are_refused() {
    let target = Target::new().await;
    for operation in &target.operations {
        let good = operation.body.to_string();
        let inside = |bytes: &[u8]| {
            let text = good.replacen("\"idempotency_key\":\"", "\"idempotency_key\":\"@@", 1);
            let at = text.find("@@").expect("a mark");
            [&text.as_bytes()[..at], bytes, &text.as_bytes()[at + 2..]].concat()
        };
        let around = |before: &str, after: &str| format!("{before}{good}{after}").into_bytes();
        for (what, body) in [
            ("nothing", Vec::new()),
            ("blanks", b" \t\r\n ".to_vec()),
            ("a form feed", b"\x0c".to_vec()),
            ("NUL", vec![0]),
            ("a byte order mark", around("\u{feff}", "")),
            ("a no-break space", around("\u{a0}", "")),
            ("a tail", around("", "x")),
            ("a second value", around("", "{}")),
            ("a comma behind", around("", ",")),
            ("a NUL behind", around("", "\0")),
            ("two bodies in a row", around("", &good)),
            ("an array around", around("[", "]")),
            (
                "UTF-16",
                good.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            ),
            ("a lone continuation byte", inside(b"\x80")),
            ("an overlong slash", inside(b"\xc0\xaf")),
            ("a surrogate in UTF-8", inside(b"\xed\xa0\x80")),
            ("beyond Unicode", inside(b"\xf4\x90\x80\x80")),
            ("a cut character", inside(b"\xe2\x82")),
            ("a lone high surrogate", inside(br"\ud800")),
            ("a lone low surrogate", inside(br"\udfff")),
            ("surrogates the wrong way round", inside(br"\udc00\ud800")),
            ("a high surrogate and a letter", inside(br"\ud800\u0041")),
            ("a bare NUL", inside(b"\0")),
            ("a bare line break", inside(b"\n")),
            ("an unknown escape", inside(br"\x41")),
            ("a short escape", inside(br"\u1g")),
            ("single quotes", good.replace('"', "'").into_bytes()),
            ("a trailing comma", good.replacen('}', ",}", 1).into_bytes()),
            ("a comment", around("/* */", "")),
            ("a form", b"idempotency_key=x&extend_by_ms=1".to_vec()),
            ("a bare word", b"undefined".to_vec()),
            (
                "not a number",
                good.replacen("\"idempotency_key\":", "\"x\":NaN,\"idempotency_key\":", 1)
                    .into_bytes(),
            ),
            (
                "a plus sign",
                good.replacen("\"idempotency_key\":", "\"x\":+1,\"idempotency_key\":", 1)
                    .into_bytes(),
            ),
            (
                "a leading zero",
                good.replacen("\"idempotency_key\":", "\"x\":01,\"idempotency_key\":", 1)
                    .into_bytes(),
            ),
        ] {
            let what = format!("{}: {what}", operation.name);
            let request = target.request(operation).body(body);
            target
                .refused(&what, request, &["Malformed request body: "])
                .await;
        }
        for other in ["null", "true", "0", "\"\"", "[]", "[{}]"] {
            let request = target.request(operation).body(other);
            target
                .refused(other, request, &["the body: must be an object"])
                .await;
        }
    }
}

fn nested(levels: usize, open: &str, inner: &str, close: &str) -> String {
    format!("{}{inner}{}", open.repeat(levels), close.repeat(levels))
}

fn with_metadata(operation: &Operation, text: &str) -> String {
    let mut body = operation.body.clone();
    body["metadata"] = json!("@@");
    body.to_string().replacen("\"@@\"", text, 1)
}

#[tokio::test]
async fn values_nest_64_levels_deep_and_no_deeper() {
    let target = Target::new().await;
    for operation in &target.operations {
        if operation.body.get("metadata").is_none() {
            continue;
        }
        for (open, inner, close) in [("{\"a\":", "1", "}"), ("{\"a\":[", "[]", "]}")] {
            let per_step = open.matches(['{', '[']).count();
            for levels in [64, 65, 100, 1_000, 100_000] {
                let steps = levels / per_step;
                let text = nested(steps, open, inner, close);
                let request = target
                    .request(operation)
                    .body(with_metadata(operation, &text));
                let what = format!("{} with {levels} levels", operation.name);
                target
                    .refused(&what, request, &["nested deeper than 64 levels"])
                    .await;
            }
        }
        for text in ["[".repeat(100_000), nested(100_000, "[", "", "]")] {
            let request = target.request(operation).body(text);
            target.refused("brackets", request, &["Malformed"]).await;
        }
        let mut deepest = with_metadata(operation, &nested(63, "{\"a\":", "1", "}"));
        deepest = deepest.replacen(&format!("\"{}\"", operation.name), "\"deepest\"", 1);
        if operation.name != "commit" {
            let request = target.request(operation).body(deepest);
            target
                .accepted("64 levels", request, operation.success)
                .await;
        }
    }
    target.accepts_valid_bodies().await;
}

#[tokio::test]
async fn numbers_in_free_data_are_unchanged_unless_no_double_holds_them() {
    let target = Target::new().await;
    let create = &target.operations[0];
    for number in ["1e999", "-1e999", "1e309", &format!("1{}", "0".repeat(400))] {
        let body = with_metadata(create, &format!("{{\"a\":[{number}]}}"));
        let request = target.request(create).body(body);
        target
            .refused(number, request, &["metadata.a[0]", "double"])
            .await;
    }
    let numbers =
        "[1.0,1e3,-0,-0.0,9223372036854775808,123456789012345678901234567890,1e-999,5e-324,1E+2]";
    let body = with_metadata(
        create,
        &format!("{{\"numbers\" : {numbers}, \"b\" : \"\\u0000\\ud83d\\ude00\" }}"),
    );
    let created = target
        .accepted("numbers", target.request(create).body(body), 200)
        .await;
    let id = created.text("/reservation_id");
    let request = target
        .app
        .request(reqwest::Method::GET, &format!("/v1/reservations/{id}"));
    let request = request.header(target.app.names.key, &target.app.keys[0]);
    let text = request
        .send()
        .await
        .expect("an answer")
        .text()
        .await
        .expect("text");
    let expected = format!("\"metadata\":{{\"numbers\":{numbers},\"b\":\"\\u0000😀\"}}");
    assert!(text.contains(&expected), "{text}");
}

#[tokio::test]
async fn minus_zero_is_zero() {
    let target = Target::new().await;
    let create = &target.operations[0];
    let body = create.body.to_string();
    let zero = |text: &str| body.replacen("\"amount\":10", &format!("\"amount\":{text}"), 1);
    let first = target
        .accepted("zero", target.request(create).body(zero("0")), 200)
        .await;
    let again = target
        .accepted("minus zero", target.request(create).body(zero("-0")), 200)
        .await;
    assert_eq!(first.at("/reservation_id"), again.at("/reservation_id"));
    assert_eq!(again.at("/reserved/amount"), &json!(0));
}

#[tokio::test]
async fn a_body_may_have_as_many_bytes_as_the_limit_and_no_more() {
    let target = Target::new().await;
    let limit = 1_048_576;
    for operation in &target.operations {
        let mut body = operation.body.to_string();
        body.push_str(&" ".repeat(limit + 1 - body.len()));
        let request = target.request(operation).body(body.clone());
        let response = target.refused_with("one byte more", request, 413).await;
        assert!(
            response.text("/message").contains("1048576"),
            "{response:?}"
        );
        body.pop();
        let request = target.request(operation).body(body);
        target
            .accepted("the limit", request, operation.success)
            .await;
    }
}

#[tokio::test]
async fn a_million_bytes_of_one_member_or_of_many_are_read_without_harm() {
    let target = Target::with(&["--metadata-bytes", "1048576"]).await;
    let create = &target.operations[0];
    let long = "é".repeat(500_000);
    for (what, body) in [
        ("a long key", json!({"idempotency_key": long})),
        ("a long name", json!({ long.as_str(): 1 })),
        ("a long kind", json!({"action": {"kind": long}})),
    ] {
        let request = target.request(create).body(body.to_string());
        let response = target.refused(what, request, &[]).await;
        assert!(response.text("/message").chars().count() <= 4_097);
    }
    let many = format!("[{}0]", "0,".repeat(500_000));
    let body = with_metadata(create, &many);
    target
        .refused(
            "many items",
            target.request(create).body(body),
            &["metadata"],
        )
        .await;
    let many: Vec<_> = (0..90_000).map(|n| format!("\"{n}\":0")).collect();
    let body = with_metadata(create, &format!("{{{}}}", many.join(",")));
    target
        .accepted("many members", target.request(create).body(body), 200)
        .await;
}
