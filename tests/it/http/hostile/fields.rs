//! Every field of every body, wrong in every way.

use serde_json::{Value, json};

use super::{Operation, Target};

const MARK: &str = "@@here@@";

/// The valid form of a field.
#[derive(Clone, Copy)]
enum Kind {
    /// 1 to 256 characters.
    Key,
    /// 1 to 128 of a set of characters.
    Segment,
    /// A number of characters, not all blank.
    Text(usize),
    /// A maximum of characters.
    Words(usize),
    Integer(i64, i64),
    OneOf(&'static str),
    Truth,
    Object,
    Tags,
    Dimensions,
}

use Kind::{Dimensions, Integer, Key, Object, OneOf, Segment, Tags, Text, Truth, Words};

/// Each field by JSON pointer; `!` in front of those that are required.
const FIELDS: [(&str, Kind); 33] = [
    ("!/idempotency_key", Key),
    ("!/subject", Object),
    ("/subject/tenant", Segment),
    ("/subject/workspace", Segment),
    ("/subject/app", Segment),
    ("/subject/workflow", Segment),
    ("/subject/agent", Segment),
    ("/subject/toolset", Segment),
    ("/subject/dimensions", Dimensions),
    ("!/action", Object),
    ("!/action/kind", Text(64)),
    ("!/action/name", Text(256)),
    ("/action/tags", Tags),
    ("/action/policy_keys", Object),
    ("!/estimate", Object),
    ("!/estimate/unit", OneOf("TOKENS")),
    ("!/estimate/amount", Integer(0, i64::MAX)),
    ("!/actual", Object),
    ("!/actual/unit", OneOf("RISK_POINTS")),
    ("!/actual/amount", Integer(0, i64::MAX)),
    ("/ttl_ms", Integer(1_000, 86_400_000)),
    ("/grace_period_ms", Integer(0, 60_000)),
    ("/overage_policy", OneOf("ALLOW_WITH_OVERDRAFT")),
    ("/dry_run", Truth),
    ("/observe_mode", OneOf("ENFORCE")),
    ("/metrics", Object),
    ("/metrics/tokens_input", Integer(0, i64::MAX)),
    ("/metrics/latency_ms", Integer(0, i64::MAX)),
    ("/metrics/model_version", Words(128)),
    ("/metrics/custom", Object),
    ("/client_time_ms", Integer(0, i64::MAX)),
    ("/metadata", Object),
    ("/reason", Words(256)),
];

/// JSON texts that no field of this kind may hold.
fn wrong(kind: Kind) -> Vec<String> {
    let text = |text: &str| Value::from(text).to_string();
    let texts = |list: &[&str]| list.iter().map(|one| text(one)).collect::<Vec<_>>();
    let literal = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
    let mut found = match kind {
        Integer(min, max) => {
            let mut found = literal(&[
                "1.0",
                "1.5",
                "1e3",
                "1E0",
                "-1.0",
                "1e-3",
                "1e999",
                "-1e999",
                "0.0e0",
                "9223372036854775808",
                "-9223372036854775808",
                "-9223372036854775809",
                "123456789012345678901234567890",
                "true",
                "[1]",
            ]);
            found.extend(texts(&["500", "", "0x10", "NaN"]));
            found.push((i128::from(min) - 1).to_string());
            found.push((i128::from(max) + 1).to_string());
            found
        }
        Truth => literal(&["0", "1", "\"true\"", "\"\"", "[]", "{}"]),
        Object => literal(&["[]", "\"{}\"", "\"\"", "1", "false", "[[]]"]),
        Tags => {
            let long = json!(["ok", "x".repeat(65)]).to_string();
            let many = json!(vec!["x"; 11]).to_string();
            let mut found = literal(&["{}", "\"a\"", "1", "[1]", "[null]", "[[]]", "[\"a\",{}]"]);
            found.extend([long, many]);
            found
        }
        Dimensions => {
            let many: serde_json::Map<_, _> =
                (0..17).map(|n| (format!("d{n}"), json!("x"))).collect();
            let mut found = literal(&[
                "[]",
                "\"\"",
                "1",
                r#"{"a":1}"#,
                r#"{"a":null}"#,
                r#"{"a":{}}"#,
            ]);
            found.push(Value::Object(many).to_string());
            found.push(json!({"a": "é".repeat(257)}).to_string());
            found
        }
        Key | Segment | Text(_) | Words(_) | OneOf(_) => {
            literal(&["0", "1.5", "true", "[]", "{}", "[\"a\"]"])
        }
    };
    found.extend(match kind {
        Key => texts(&["", &"k".repeat(257), &"漢".repeat(257)]),
        Segment => {
            let long = "x".repeat(129);
            texts(&[
                "",
                "a/b",
                "a:b",
                "a b",
                " ",
                "é",
                "a\0",
                "a\n",
                "*",
                "\u{202e}a",
                &long,
            ])
        }
        Text(max) => texts(&["", " ", "\t\r\n", "\u{3000}", &"é".repeat(max + 1)]),
        Words(max) => texts(&[&"é".repeat(max + 1)]),
        OneOf(word) => {
            let (lower, padded) = (word.to_lowercase(), format!(" {word}"));
            texts(&["", "EUR", &lower, &padded, &word[1..], &format!("{word}\0")])
        }
        _ => Vec::new(),
    });
    found
}

/// A body with raw JSON text in the place of a member.
fn with(body: &Value, pointer: &str, text: &str) -> String {
    let mut body = body.clone();
    *body.pointer_mut(pointer).expect("a member") = Value::from(MARK);
    body.to_string().replacen(&format!("\"{MARK}\""), text, 1)
}

fn without(body: &Value, pointer: &str) -> String {
    let mut body = body.clone();
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    let parent = body.pointer_mut(parent).and_then(Value::as_object_mut);
    parent.expect("an object").remove(name);
    body.to_string()
}

async fn check(target: &Target, operation: &Operation) {
    let refuse = async |what: String, body: String, named: &str| {
        let request = target.request(operation).body(body);
        target.refused(&what, request, &[named]).await;
    };
    for (pointer, kind) in FIELDS {
        let required = pointer.starts_with('!');
        let pointer = pointer.trim_start_matches('!');
        if operation.body.pointer(pointer).is_none() {
            continue;
        }
        let path = pointer[1..].replace('/', ".");
        for text in wrong(kind) {
            let what = format!("{}: {path} = {text:.40}", operation.name);
            refuse(what, with(&operation.body, pointer, &text), &path).await;
        }
        if required {
            let what = format!("{}: {path}", operation.name);
            let null = with(&operation.body, pointer, "null");
            refuse(format!("{what} null"), null, &path).await;
            let absent = without(&operation.body, pointer);
            refuse(format!("{what} absent"), absent, &path).await;
        }
    }
}

#[tokio::test]
async fn every_field_wrong_in_every_way_is_refused_by_name() {
    let target = Target::new().await;
    for operation in &target.operations {
        check(&target, operation).await;
    }
    target.accepts_valid_bodies().await;
}

#[tokio::test]
async fn a_subject_without_a_level_is_refused() {
    let target = Target::new().await;
    for operation in &target.operations {
        if operation.body.pointer("/subject").is_none() {
            continue;
        }
        for subject in [
            "{}",
            r#"{"dimensions":{"a":"b"}}"#,
            r#"{"tenant":null,"agent":null}"#,
            r#"{"dimensions":null}"#,
        ] {
            let body = with(&operation.body, "/subject", subject);
            let request = target.request(operation).body(body);
            target
                .refused(subject, request, &["subject: must name"])
                .await;
        }
    }
}

#[tokio::test]
async fn observe_mode_is_refused() {
    let target = Target::new().await;
    let create = &target.operations[0];
    let body = with(&create.body, "/observe_mode", "\"OBSERVE\"");
    let request = target.request(create).body(body);
    target
        .refused("observe", request, &["observe_mode", "dry_run"])
        .await;
}

#[tokio::test]
async fn an_unknown_member_at_any_closed_level_is_refused_by_its_path() {
    let target = Target::new().await;
    for operation in &target.operations {
        for level in [
            "",
            "/subject",
            "/action",
            "/estimate",
            "/actual",
            "/metrics",
        ] {
            for (name, escaped) in [
                ("surprise", "surprise"),
                ("Amount", "Amount"),
                ("idempotency_key ", "idempotency_key "),
                ("a\u{0}b\u{1b}[2J\u{202e}", "a\\u{0}b\\u{1b}[2J\\u{202e}"),
                ("dry-run", "dry-run"),
                ("__proto__", "__proto__"),
            ] {
                let mut body = operation.body.clone();
                let Some(object) = body.pointer_mut(level) else {
                    continue;
                };
                for value in [json!(1), Value::Null, json!({"deep": []})] {
                    object[name] = value;
                }
                let path = format!("{level}/{escaped}")[1..].replace('/', ".");
                let what = format!("{}: {path}", operation.name);
                let request = target.request(operation).body(body.to_string());
                let named = format!("unknown member `{path}`");
                target.refused(&what, request, &[&named]).await;
            }
        }
    }
}

#[tokio::test]
async fn several_mistakes_are_named_in_one_message_and_many_are_counted() {
    let target = Target::new().await;
    let create = &target.operations[0];
    let mut body = create.body.clone();
    body["ttl_ms"] = json!(1);
    body["subject"]["agent"] = json!("a/b");
    body["estimate"]["unit"] = json!("EUR");
    let request = target.request(create).body(body.to_string());
    let named = [
        "Validation failed: ",
        "ttl_ms: ",
        "subject.agent: ",
        "estimate.unit: ",
    ];
    target.refused("three mistakes", request, &named).await;
    for number in 0..20_000 {
        body[format!("unknown-{number}")] = json!(number);
    }
    let request = target.request(create).body(body.to_string());
    let response = target.refused("a flood", request, &[" more"]).await;
    assert!(response.text("/message").len() < 4_096);
}
