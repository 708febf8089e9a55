//! Values that many requests share: amounts, subjects, actions, metrics.

use super::*;
use crate::domain::action::Metrics;
use crate::domain::amount::Amount;
use crate::domain::subject::Subject;

#[test]
fn amounts() {
    assert!(read::<Amount>(r#"{"unit":"TOKENS","amount":0}"#, ()).is_ok());
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
        let message = refusal::<Amount>(text, ());
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
        assert!(read::<Subject>(text, ()).is_ok(), "{text}");
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
        let message = refusal::<Subject>(&text, ());
        assert!(message.contains(part), "{text}: {message}");
    }
    assert!(
        read::<Subject>(
            &format!(r#"{{"app":"a","dimensions":{{{}}}}}"#, dimension(16)),
            ()
        )
        .is_ok()
    );
}

#[test]
fn a_subject_is_returned_as_it_was_sent() {
    let text = r#"{"tenant":"acme","workspace":"Prod","dimensions":{"a":"1"}}"#;
    assert_eq!(
        serde_json::to_string(&read::<Subject>(text, ()).unwrap()).unwrap(),
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
        assert!(read::<Action>(&text, ()).is_ok(), "{text}");
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
        let message = refusal::<Action>(&text, ());
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn metrics() {
    let text = r#"{"tokens_input":1,"model_version":"m","custom":{"deep":[{"x":null,"n":1.50}]}}"#;
    assert_eq!(
        serde_json::to_string(&read::<Metrics>(text, ()).unwrap()).unwrap(),
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
        let message = refusal::<Metrics>(text, ());
        assert!(message.contains(part), "{text}: {message}");
    }
}
