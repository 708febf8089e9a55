//! Values that many requests share: amounts, subjects, actions, metrics.

use super::*;
use crate::domain::amount::Amount;
use crate::domain::subject::{Metrics, Subject};

#[test]
fn amounts() {
    assert!(read::<Amount>(r#"{"unit":"TOKENS","amount":0}"#, ()).is_ok());
    for (text, part) in rows(
        r#"
        {"unit":"tokens","amount":1} => x.unit: must be one of USD_MICROCENTS, TOKENS, CREDITS, RISK_POINTS, not `tokens`
        {"unit":"TOKENS"} => x.amount: is required
        {"unit":"TOKENS","amount":1,"currency":"EUR"} => unknown member `x.currency`
        {"unit":7,"amount":"1"} => x.unit: must be a string, not a number, x.amount: must be an integer, not a string
        500 => x: must be an object, not a number
        "#,
    ) {
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
    let dimensions = |count: usize| {
        let dimensions: Vec<_> = (0..count)
            .map(|index| format!(r#""d{index}":"v""#))
            .collect();
        format!(r#"{{"app":"a","dimensions":{{{}}}}}"#, dimensions.join(","))
    };
    assert!(read::<Subject>(&dimensions(16), ()).is_ok());
    let too_long = |text: &str, chars: usize| text.replace("long", &"w".repeat(chars));
    for (text, part) in [
        (&*dimensions(17), "x.dimensions: must have at most 16 entries, not 17"),
        (&too_long(r#"{"workspace":"long"}"#, 129), CHARSET),
        (
            &too_long(r#"{"app":"a","dimensions":{"k":"long"}}"#, 257),
            "x.dimensions.k: must be at most 256",
        ),
    ]
    .into_iter()
    .chain(rows(
        r#"
        {} => x: must name at least one of tenant, workspace, app, workflow, agent, toolset
        {"tenant":null} => x: must name at least one of tenant, workspace, app, workflow, agent, toolset
        {"dimensions":{"a":"b"}} => x: must name at least one of tenant, workspace, app, workflow, agent, toolset
        {"workspace":"a\u0000"} => not `a\u{0}`
        {"workspace":5} => x.workspace: must be a string, not a number
        {"team":"a","tenant":"b"} => unknown member `x.team`
        {"app":"a","dimensions":{"k":1}} => x.dimensions.k: must be a string, not a number
        {"app":"a","dimensions":{"k":null}} => x.dimensions.k: must be a string, not null
        "#,
    )) {
        let message = refusal::<Subject>(text, ());
        assert!(message.contains(part), "{text}: {message}");
    }
    for value in ["", "a/b", "a:b", "a b", "é"] {
        for (level, more) in [("tenant", ","), ("workspace", " @ +,")] {
            let message = refusal::<Subject>(&format!(r#"{{"{level}":"{value}"}}"#), ());
            let wanted = format!("x.{level}: {CHARSET}{more}");
            assert!(message.contains(&wanted), "{value}: {message}");
        }
    }
    let address = "Ann.Lee+bot@example.com";
    for level in ["workspace", "app", "workflow", "agent", "toolset"] {
        read::<Subject>(&format!(r#"{{"{level}":"{address}"}}"#), ()).expect("a value");
    }
    let message = refusal::<Subject>(&format!(r#"{{"tenant":"{address}"}}"#), ());
    assert!(message.contains(CHARSET), "{message}");
}

const CHARSET: &str = "must be 1 to 128 characters of A-Z a-z 0-9 _ . -";

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
    let eleven = format!(r#"{{"kind":"k","name":"n","tags":[{}]}}"#, tags(11, 1));
    let too_long = |text: &str| text.replace("long", &"t".repeat(65));
    for (text, part) in [
        (&*eleven, "x.tags: must have at most 10 items, not 11"),
        (
            &too_long(r#"{"kind":"long","name":"n"}"#),
            "x.kind: must be 1 to 64 characters long, not 65",
        ),
        (
            &too_long(r#"{"kind":"k","name":"n","tags":["long"]}"#),
            "x.tags[0]: must be at most 64",
        ),
    ]
    .into_iter()
    .chain(rows(
        r#"
        {"name":"n"} => x.kind: is required
        {"kind":" \t","name":""} => x.kind: must not be blank, x.name: must not be blank
        {"kind":"k","name":"n","tags":[null]} => x.tags[0]: must be a string, not null
        {"kind":"k","name":"n","tags":"t"} => x.tags: must be an array, not a string
        {"kind":"k","name":"n","args":{}} => unknown member `x.args`
        "#,
    )) {
        let message = refusal::<Action>(text, ());
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
    for (text, part) in rows(
        r#"
        {"tokens_output":-1} => x.tokens_output: must be between 0
        {"latency_ms":1.5} => x.latency_ms: must be an integer
        {"custom":[]} => x.custom: must be an object, not an array
        {"cost":1} => unknown member `x.cost`
        "#,
    ) {
        let message = refusal::<Metrics>(text, ());
        assert!(message.contains(part), "{text}: {message}");
    }
}
