use super::*;
use crate::domain::action::{Action, Metrics};
use crate::domain::amount::Amount;
use crate::domain::subject::Subject;

fn read<T>(text: &str, read: impl FnOnce(Value<'_>) -> Option<T>) -> Result<T, String> {
    let body = Json::parse(format!("{{\"x\":{text}}}").as_bytes()).unwrap();
    read_body(body, |object| object.required("x", read)).map_err(|problems| problems.to_string())
}

fn refusal<T>(text: &str, reader: impl FnOnce(Value<'_>) -> Option<T>) -> String {
    match read(text, reader) {
        Ok(_) => panic!("accepted {text}"),
        Err(message) => message,
    }
}

#[test]
fn integers_are_json_integers_within_bounds() {
    for (text, message) in [
        (
            r#""500""#,
            "Malformed request body: x: must be an integer, not a string",
        ),
        (
            "true",
            "Malformed request body: x: must be an integer, not a boolean",
        ),
        (
            "[]",
            "Malformed request body: x: must be an integer, not an array",
        ),
        (
            "1.5",
            "Malformed request body: x: must be an integer without fraction or exponent, not `1.5`",
        ),
        (
            "1.0",
            "Malformed request body: x: must be an integer without fraction or exponent, not `1.0`",
        ),
        (
            "1e3",
            "Malformed request body: x: must be an integer without fraction or exponent, not `1e3`",
        ),
        (
            "9223372036854775808",
            "Validation failed: x: must be between 0 and 9223372036854775807, not `9223372036854775808`",
        ),
        (
            "-1",
            "Validation failed: x: must be between 0 and 9223372036854775807, not `-1`",
        ),
        (
            "null",
            "Validation failed: x: is required and must not be null",
        ),
    ] {
        assert_eq!(refusal(text, |value| value.integer(0..=i64::MAX)), message);
    }
    assert_eq!(
        read("9223372036854775807", |value| value.integer(0..=i64::MAX)),
        Ok(i64::MAX)
    );
    assert_eq!(
        read("-9223372036854775808", |value| value.integer(i64::MIN..=0)),
        Ok(i64::MIN)
    );
    assert_eq!(read("-0", |value| value.integer(0..=1)), Ok(0));
}

#[test]
fn strings_are_counted_in_characters() {
    assert!(
        read(&format!("\"{}\"", "漢".repeat(4)), |value| value
            .string(1..=4))
        .is_ok()
    );
    assert_eq!(
        refusal(&format!("\"{}\"", "é".repeat(5)), |value| value
            .string(1..=4)),
        "Validation failed: x: must be 1 to 4 characters long, not 5"
    );
    assert_eq!(
        refusal("\"\"", |value| value.string(1..=4)),
        "Validation failed: x: must be 1 to 4 characters long, not 0"
    );
    assert_eq!(
        refusal("\"  \"", |value| value.text(4)),
        "Validation failed: x: must not be blank"
    );
    assert_eq!(
        refusal("7", |value| value.text(4)),
        "Malformed request body: x: must be a string, not a number"
    );
}

#[test]
fn every_problem_is_named_at_once_and_form_comes_first() {
    let body = br#"{"a":1000,"b":"x","sub":{"typo":1},"Key":"k"}"#;
    let problems = read_body(Json::parse(body).unwrap(), |object| {
        object.required("key", |value| value.idempotency_key());
        object.optional("a", |value| value.integer(0..=10));
        object.optional("b", |value| value.boolean());
        object.optional("sub", |value| value.object(|_| Some(())))
    })
    .unwrap_err();
    assert!(problems.is_malformed());
    assert_eq!(
        problems.to_string(),
        "Malformed request body: b: must be true or false, not a string, unknown member `sub.typo`, unknown member `Key`, \
         key: is required, a: must be between 0 and 10, not `1000`"
    );
}

#[test]
fn a_flood_of_problems_is_counted_not_listed() {
    let members: Vec<String> = (0..1000).map(|index| format!("\"m{index}\":0")).collect();
    let body = Json::parse(format!("{{{}}}", members.join(",")).as_bytes()).unwrap();
    let message = read_body(body, |_| Some(())).unwrap_err().to_string();
    assert!(message.ends_with(", and 980 more"), "{message}");
}

#[test]
fn foreign_text_is_never_repeated_raw() {
    let body = Json::parse(br#"{"a\u001b[31m\u0000":1,"unit":"\r\nX"}"#).unwrap();
    let message = read_body(body, |object| {
        object.optional("unit", crate::domain::amount::Unit::read)
    })
    .unwrap_err()
    .to_string();
    assert!(!message.chars().any(char::is_control), "{message:?}");
    assert!(
        message.contains("unknown member `a\\u{1b}[31m\\u{0}`"),
        "{message}"
    );
}

#[test]
fn a_body_must_be_an_object() {
    for (text, kind) in [
        ("[]", "an array"),
        ("null", "null"),
        ("\"{}\"", "a string"),
        ("1", "a number"),
    ] {
        let message = read_body(Json::parse(text.as_bytes()).unwrap(), |_| Some(()))
            .unwrap_err()
            .to_string();
        assert_eq!(
            message,
            format!("Malformed request body: the body: must be an object, not {kind}")
        );
    }
}

#[test]
fn amounts() {
    assert!(read(r#"{"unit":"TOKENS","amount":0}"#, Amount::read).is_ok());
    for (text, part) in [
        (
            r#"{"unit":"tokens","amount":1}"#,
            "x.unit: must be one of USD_MICROCENTS, TOKENS, CREDITS, RISK_POINTS, not `tokens`",
        ),
        (r#"{"unit":"TOKENS"}"#, "x.amount: is required"),
        (
            r#"{"unit":"TOKENS","amount":1,"currency":"EUR"}"#,
            "unknown member `x.currency`",
        ),
        (
            r#"{"unit":7,"amount":"1"}"#,
            "x.unit: must be a string, not a number, x.amount: must be an integer, not a string",
        ),
        ("500", "x: must be an object, not a number"),
    ] {
        let message = refusal(text, Amount::read);
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn subjects() {
    let longest = format!(r#"{{"workspace":"{}"}}"#, "w".repeat(128));
    for text in [
        r#"{"tenant":"acme"}"#,
        r#"{"toolset":"A_b-c.D","tenant":null}"#,
        &longest,
        r#"{"agent":"a","dimensions":{"K!":""}}"#,
    ] {
        assert!(read(text, Subject::read).is_ok(), "{text}");
    }
    let none = "x: must name at least one of tenant, workspace, app, workflow, agent, toolset";
    let charset = "x.workspace: must be 1 to 128 characters of A-Z a-z 0-9 _ . -";
    let dimension = |count: usize| {
        (0..count)
            .map(|index| format!("\"d{index}\":\"v\""))
            .collect::<Vec<_>>()
            .join(",")
    };
    for (text, part) in [
        ("{}".to_owned(), none),
        (r#"{"tenant":null}"#.to_owned(), none),
        (r#"{"dimensions":{"a":"b"}}"#.to_owned(), none),
        (r#"{"workspace":""}"#.to_owned(), charset),
        (r#"{"workspace":"a/b"}"#.to_owned(), charset),
        (r#"{"workspace":"a:b"}"#.to_owned(), charset),
        (r#"{"workspace":"a b"}"#.to_owned(), charset),
        (r#"{"workspace":"a\u0000"}"#.to_owned(), "not `a\\u{0}`"),
        (r#"{"workspace":"é"}"#.to_owned(), charset),
        (format!(r#"{{"workspace":"{}"}}"#, "w".repeat(129)), charset),
        (
            r#"{"workspace":5}"#.to_owned(),
            "x.workspace: must be a string, not a number",
        ),
        (
            r#"{"team":"a","tenant":"b"}"#.to_owned(),
            "unknown member `x.team`",
        ),
        (
            format!(r#"{{"app":"a","dimensions":{{{}}}}}"#, dimension(17)),
            "x.dimensions: must have at most 16 entries, not 17",
        ),
        (
            format!(
                r#"{{"app":"a","dimensions":{{"k":"{}"}}}}"#,
                "v".repeat(257)
            ),
            "x.dimensions.k: must be at most 256",
        ),
        (
            r#"{"app":"a","dimensions":{"k":1}}"#.to_owned(),
            "x.dimensions.k: must be a string, not a number",
        ),
        (
            r#"{"app":"a","dimensions":{"k":null}}"#.to_owned(),
            "x.dimensions.k: must be a string, not null",
        ),
    ] {
        let message = refusal(&text, Subject::read);
        assert!(message.contains(part), "{text}: {message}");
    }
    assert!(
        read(
            &format!(r#"{{"app":"a","dimensions":{{{}}}}}"#, dimension(16)),
            Subject::read
        )
        .is_ok()
    );
}

#[test]
fn a_subject_is_returned_as_it_was_sent() {
    let text = r#"{"tenant":"acme","workspace":"Prod","dimensions":{"a":"1"}}"#;
    assert_eq!(
        serde_json::to_string(&read(text, Subject::read).unwrap()).unwrap(),
        text
    );
}

#[test]
fn actions() {
    let tags =
        |count: usize, chars: usize| vec![format!("\"{}\"", "t".repeat(chars)); count].join(",");
    for text in [
        r#"{"kind":"k","name":"n"}"#.to_owned(),
        r#"{"kind":"k","name":"n","tags":null,"policy_keys":{"host":null}}"#.to_owned(),
        format!(
            r#"{{"kind":"{}","name":"{}","tags":[{}]}}"#,
            "k".repeat(64),
            "n".repeat(256),
            tags(10, 64)
        ),
    ] {
        assert!(read(&text, Action::read).is_ok(), "{text}");
    }
    for (text, part) in [
        (r#"{"name":"n"}"#.to_owned(), "x.kind: is required"),
        (
            r#"{"kind":" \t","name":""}"#.to_owned(),
            "x.kind: must not be blank, x.name: must not be blank",
        ),
        (
            format!(r#"{{"kind":"{}","name":"n"}}"#, "k".repeat(65)),
            "x.kind: must be 1 to 64 characters long, not 65",
        ),
        (
            format!(r#"{{"kind":"k","name":"n","tags":[{}]}}"#, tags(11, 1)),
            "x.tags: must have at most 10 items, not 11",
        ),
        (
            format!(r#"{{"kind":"k","name":"n","tags":[{}]}}"#, tags(1, 65)),
            "x.tags[0]: must be at most 64",
        ),
        (
            r#"{"kind":"k","name":"n","tags":[null]}"#.to_owned(),
            "x.tags[0]: must be a string, not null",
        ),
        (
            r#"{"kind":"k","name":"n","tags":"t"}"#.to_owned(),
            "x.tags: must be an array, not a string",
        ),
        (
            r#"{"kind":"k","name":"n","args":{}}"#.to_owned(),
            "unknown member `x.args`",
        ),
    ] {
        let message = refusal(&text, Action::read);
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn metrics() {
    let text = r#"{"tokens_input":1,"model_version":"m","custom":{"deep":[{"x":null,"n":1.50}]}}"#;
    assert_eq!(
        serde_json::to_string(&read(text, Metrics::read).unwrap()).unwrap(),
        text
    );
    for (text, part) in [
        (
            r#"{"tokens_output":-1}"#,
            "x.tokens_output: must be between 0",
        ),
        (r#"{"latency_ms":1.5}"#, "x.latency_ms: must be an integer"),
        (
            r#"{"custom":[]}"#,
            "x.custom: must be an object, not an array",
        ),
        (r#"{"cost":1}"#, "unknown member `x.cost`"),
    ] {
        let message = refusal(text, Metrics::read);
        assert!(message.contains(part), "{text}: {message}");
    }
}
