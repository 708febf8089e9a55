use super::*;
use crate::domain::amount::Unit;
use crate::domain::ids::IdempotencyKey;
use crate::domain::rows;
use crate::domain::subject::Action;
use serde_json::json;

mod values;

/// Reads `text` as the member `x` of a body.
fn read<T: Read>(text: &str, rules: T::Rules) -> Result<T, String> {
    let mut member = Member::<T>::new("x", "");
    member.rules = rules;
    let body = Json::parse(format!("{{\"x\":{text}}}").as_bytes()).unwrap();
    let mut problems = Problems::default();
    let value = Value::new(body, Place::BODY, &mut problems);
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
    for (text, reason) in rows(
        r#"
        "500" => must be an integer, not a string
        true => must be an integer, not a boolean
        [] => must be an integer, not an array
        1.5 => must be an integer without fraction or exponent, not `1.5`
        1.0 => must be an integer without fraction or exponent, not `1.0`
        1e3 => must be an integer without fraction or exponent, not `1e3`
        "#,
    ) {
        let message = format!("Malformed request body: x: {reason}");
        assert_eq!(refusal::<i64>(text, Range::of(0..)), message);
    }
    for (text, reason) in rows(
        "9223372036854775808 => must be between 0 and 9223372036854775807, not `9223372036854775808`
        -1 => must be between 0 and 9223372036854775807, not `-1`
        null => is required and must not be null",
    ) {
        let message = format!("Validation failed: x: {reason}");
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
    let chars = Text::chars(1..=4);
    let blank = Text {
        blank: Blank::Refused,
        ..chars
    };
    assert!(read::<String>(&format!("\"{}\"", "漢".repeat(4)), chars).is_ok());
    for (text, reason) in rows(
        r#"
        "ééééé" => Validation failed: x: must be 1 to 4 characters long, not 5
        "" => Validation failed: x: must be 1 to 4 characters long, not 0
        "#,
    ) {
        assert_eq!(refusal::<String>(text, chars), reason);
    }
    for (text, reason) in rows(
        r#"
        "  " => Validation failed: x: must not be blank
        7 => Malformed request body: x: must be a string, not a number
        "#,
    ) {
        assert_eq!(refusal::<String>(text, blank), reason);
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
fn rules_over_several_members_are_checked_last() {
    for (body, message) in rows(
        r#"{"key":"k","a":7} => Validation failed: a: must not be 7
        {"a":7} => Validation failed: key: is required"#,
    ) {
        assert_eq!(problems::<Sample>(body).to_string(), message);
    }
}

#[test]
fn absent_null_and_blank_differ() {
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
    for (texts, message) in rows(
        r#"
        [] => Validation failed: texts: must have at least one item
        ["","","",""] => Validation failed: texts: must have at most 3 items, not 4
        ["","abc"] => Validation failed: texts[1]: must be at most 2 characters long, not 3
        "#,
    ) {
        let problems = problems::<Sample>(&format!(r#"{{"key":"k","texts":{texts}}}"#));
        assert_eq!(problems.to_string(), message);
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
    struct Response as "Published": Serialize + Open {
        /// Its kind.
        kind: String { name: "type" },
        /// Absent or present.
        maybe: Option<i64>,
        /// For the service alone.
        inner: i64 { internal: true },
        /// Left out when empty.
        list: Vec<String> { skip_if: Vec::is_empty },
        /// Always there.
        always: bool { required: false },
    }
}

#[test]
fn a_response_leaves_out_what_is_absent() {
    let mut response = Response {
        kind: "k".to_owned(),
        maybe: None,
        inner: 7,
        list: Vec::new(),
        always: false,
    };
    assert_eq!(json!(response), json!({"type": "k", "always": false}));
    (response.maybe, response.list) = (Some(1), vec!["x".to_owned()]);
    assert_eq!(
        json!(response),
        json!({"type": "k", "maybe": 1, "list": ["x"], "always": false})
    );
    let mut components = Components::default();
    Response::schema(&(), &mut components);
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
    for (text, kind) in rows(
        r#"[] => an array
        null => null
        "{}" => a string
        1 => a number"#,
    ) {
        let message = format!("Malformed request body: the body: must be an object, not {kind}");
        assert_eq!(problems::<Sample>(text).to_string(), message);
    }
}
