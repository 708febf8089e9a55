use super::*;
use crate::domain::action::{Action, Metrics};
use crate::domain::amount::{Amount, Unit};
use crate::domain::ids::IdempotencyKey;
use crate::domain::subject::Subject;
use serde_json::json;

/// Reads `text` as the member `x` of a body.
fn read<T: Read>(text: &str, rules: T::Rules) -> Result<T, String> {
    let mut member = Member::<T>::new("x");
    member.rules = rules;
    let body = Json::parse(format!("{{\"x\":{text}}}").as_bytes()).unwrap();
    let mut problems = Problems::default();
    let value = Value::new(body, String::new(), &mut problems);
    let value = value.object(|object| object.read(member));
    value
        .filter(|_| problems.is_empty())
        .ok_or(problems.to_string())
}

fn refusal<T: Read>(text: &str, rules: T::Rules) -> String {
    match read::<T>(text, rules) {
        Ok(_) => panic!("accepted {text}"),
        Err(message) => message,
    }
}

fn problems<T: Read>(body: &str) -> Problems {
    let body = Json::parse(body.as_bytes()).unwrap();
    T::from_json(body).err().expect("refused")
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
        assert_eq!(refusal::<i64>(text, Range::of(0..)), message);
    }
    assert_eq!(
        read("9223372036854775807", Range::of(0..=i64::MAX)),
        Ok(i64::MAX)
    );
    assert_eq!(read("-9223372036854775808", Range::of(..=0)), Ok(i64::MIN));
    assert_eq!(read("-0", Range::of(0..=1)), Ok(0));
}

#[test]
fn strings_are_counted_in_characters() {
    let chars = || Text::chars(1..=4);
    let blank = || Text {
        blank: Blank::Refused,
        ..chars()
    };
    assert!(read::<String>(&format!("\"{}\"", "漢".repeat(4)), chars()).is_ok());
    for (text, rules, message) in [
        (
            &*format!("\"{}\"", "é".repeat(5)),
            chars(),
            "Validation failed: x: must be 1 to 4 characters long, not 5",
        ),
        (
            "\"\"",
            chars(),
            "Validation failed: x: must be 1 to 4 characters long, not 0",
        ),
        ("\"  \"", blank(), "Validation failed: x: must not be blank"),
        (
            "7",
            blank(),
            "Malformed request body: x: must be a string, not a number",
        ),
    ] {
        assert_eq!(refusal::<String>(text, rules), message);
    }
}

object! {
    /// An object with
    /// members of several kinds.
    #[derive(Debug)]
    pub struct Sample: Read {
        /// Identifies it.
        pub key: IdempotencyKey,
        /// A number.
        pub a: i64 { range: 0..=10, default: 3 },
        /// A flag.
        pub b: Option<bool> { default: true },
        /// Texts.
        pub texts: Option<Vec<String>> { unpublished_items: 1..=3, distinct: true, each: Text::chars(..=2) },
        /// A change.
        pub change: Patch<String> { blank: Blank::Null, trimmed: true, chars: ..=9 },
        /// Its unit.
        pub unit: Option<Unit>,
    }
    ignore { sub: Action }
    check |sample, object| {
        if sample.a == 7 {
            object.refuse_member("a", "must not be 7");
        }
    }
}

#[test]
fn every_problem_is_named_at_once_and_form_comes_first() {
    let problems = problems::<Sample>(
        r#"{"a":1000,"b":"x","sub":{"typo":1,"kind":"k","name":"n"},"Key":"k"}"#,
    );
    assert!(problems.is_malformed());
    assert_eq!(
        problems.to_string(),
        "Malformed request body: b: must be true or false, not a string, unknown member `sub.typo`, unknown member `Key`, \
         key: is required, a: must be between 0 and 10, not `1000`"
    );
}

#[test]
fn what_follows_from_several_members_is_judged_last() {
    let message = |body| problems::<Sample>(body).to_string();
    assert_eq!(
        message(r#"{"key":"k","a":7}"#),
        "Validation failed: a: must not be 7"
    );
    assert_eq!(message(r#"{"a":7}"#), "Validation failed: key: is required");
}

#[test]
fn absent_null_and_blank_are_told_apart() {
    let sample = |body: &str| Sample::from_json(Json::parse(body.as_bytes()).unwrap()).expect(body);
    let absent = sample(r#"{"key":"k"}"#);
    assert_eq!((absent.key.as_str(), absent.unit), ("k", None));
    assert_eq!((absent.a, absent.b, absent.change), (3, None, Patch::Keep));
    let null = sample(r#"{"key":"k","a":null,"b":null,"texts":null,"change":null}"#);
    assert_eq!((null.a, null.texts, null.change), (3, None, Patch::Clear));
    assert_eq!(
        sample(r#"{"key":"k","change":"          "}"#).change,
        Patch::Clear
    );
    let set = sample(r#"{"key":"k","texts":["b","a","b"],"change":" x "}"#);
    assert_eq!(set.texts, Some(vec!["b".to_owned(), "a".to_owned()]));
    assert_eq!(set.change, Patch::Set("x".to_owned()));
    for (texts, message) in [
        ("[]", "texts: must have at least one item"),
        (
            r#"["","","",""]"#,
            "texts: must have at most 3 items, not 4",
        ),
        (
            r#"["","abc"]"#,
            "texts[1]: must be at most 2 characters long, not 3",
        ),
    ] {
        let problems = problems::<Sample>(&format!(r#"{{"key":"k","texts":{texts}}}"#));
        assert_eq!(
            problems.to_string(),
            format!("Validation failed: {message}")
        );
    }
}

#[test]
fn a_declaration_is_its_own_description() {
    let mut components = Components::default();
    let reference = Sample::schema(&(), &mut components);
    assert_eq!(reference, json!({"$ref": "#/components/schemas/Sample"}));
    assert_eq!(
        components.into_schemas()["Sample"],
        json!({
            "type": "object",
            "description": "An object with\nmembers of several kinds.",
            "additionalProperties": false,
            "required": ["key"],
            "properties": {
                "key": {"type": "string", "minLength": 1, "maxLength": 256, "description": "Identifies it."},
                "a": {
                    "type": "integer", "format": "int64", "minimum": 0, "maximum": 10, "default": 3,
                    "description": "A number.",
                },
                "b": {"type": "boolean", "default": true, "description": "A flag."},
                "texts": {
                    "type": "array", "items": {"type": "string", "maxLength": 2}, "description": "Texts.",
                },
                "change": {"type": "string", "maxLength": 9, "description": "A change."},
                "unit": {"$ref": "#/components/schemas/Unit", "description": "Its unit."},
            },
        })
    );
}

object! {
    /// A response.
    struct Shown as "Published": Show + Open {
        /// Its kind.
        kind: String { name: "type" },
        /// Absent or present.
        maybe: Option<i64>,
        /// For the service alone.
        inner: i64 { shown: false },
        /// Left out when empty.
        list: Vec<String> { skip_if: Vec::is_empty },
        /// Always there.
        always: bool { required: false },
    }
}

#[test]
fn a_response_leaves_out_what_is_absent() {
    let mut shown = Shown {
        kind: "k".to_owned(),
        maybe: None,
        inner: 7,
        list: Vec::new(),
        always: false,
    };
    assert_eq!(json!(shown), json!({"type": "k", "always": false}));
    (shown.maybe, shown.list) = (Some(1), vec!["x".to_owned()]);
    assert_eq!(
        json!(shown),
        json!({"type": "k", "maybe": 1, "list": ["x"], "always": false})
    );
    let mut components = Components::default();
    Shown::schema(&(), &mut components);
    let schemas = components.into_schemas();
    assert_eq!(schemas["Published"]["required"], json!(["type"]));
    assert!(schemas["Published"].get("additionalProperties").is_none());
    assert!(schemas["Published"]["properties"].get("inner").is_none());
}

#[test]
fn a_flood_of_problems_is_counted_not_listed() {
    let members: Vec<String> = (0..1000).map(|index| format!("\"m{index}\":0")).collect();
    let body = format!("{{\"key\":\"k\",{}}}", members.join(","));
    let message = problems::<Sample>(&body).to_string();
    assert!(message.ends_with(", and 980 more"), "{message}");
}

#[test]
fn foreign_text_is_never_repeated_raw() {
    let body = r#"{"key":"k","a\u001b[31m\u0000":1,"unit":"\r\nX"}"#;
    let message = problems::<Sample>(body).to_string();
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
        assert_eq!(
            problems::<Sample>(text).to_string(),
            format!("Malformed request body: the body: must be an object, not {kind}")
        );
    }
}

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
