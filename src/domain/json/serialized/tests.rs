//! That the form is that of the text.

use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::domain::json::tests::any_name;
use crate::domain::json::{Canonical, FreeObject, Json};

#[derive(serde::Serialize)]
enum Word {
    #[serde(rename = "A_WORD")]
    Unit,
    Of(u8),
}

#[derive(serde::Serialize)]
struct Object {
    amount: i64,
    share: f64,
    none: Option<u8>,
    some: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    absent: Option<u8>,
    words: Vec<Word>,
    letter: char,
    any: Value,
    empty: Vec<u8>,
}

fn object(amount: i64, any: Value) -> Object {
    Object {
        amount,
        share: 1.0,
        none: None,
        some: Some(true),
        absent: None,
        words: vec![Word::Unit, Word::Unit],
        letter: '"',
        any,
        empty: Vec::new(),
    }
}

/// By way of the text.
fn parsed(value: &impl serde::Serialize) -> Json {
    Json::parse(&serde_json::to_vec(value).expect("it serializes")).expect("JSON")
}

#[test]
fn it_is_the_canonical_form_of_the_text() {
    let names = json!({"\u{20ac}": 1, "\r": 2, "\u{fb33}": 3, "1": 4, "\u{1f600}": 5, "\u{80}": 6, "\u{f6}": 7});
    let nested = json!({"b": [1, 2.50, -0.0, 1e30, {"z": {"y": {}, "x": [[]]}, "a": "é\n"}], "a": {"": null}});
    for any in [
        names,
        nested,
        json!({"a\\\"b": 1}),
        json!("text"),
        json!({}),
    ] {
        let object = object(5, any);
        let canonical = Canonical::of(&object, &[]).expect("JSON");
        assert_eq!(canonical.as_str(), parsed(&object).rfc8785());
        assert_eq!(canonical.first_rounded(), None);
        assert!(object.absent.is_none());
    }
}

/// A structure whose names differ in all places, with fields or as a map.
struct Names {
    fields: bool,
}

impl serde::Serialize for Names {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::{SerializeMap as _, SerializeStruct as _};
        const NAMES: [&str; 14] = [
            "abcdefghz",
            "abcdefgh",
            "abcdefg",
            "abcdefghi",
            "abcdefg\u{ff}",
            "abcdefg\u{fb33}",
            "abcdefg\u{1f600}",
            "abcdefg~",
            "abcdef\u{e9}g",
            "b",
            "",
            "a\u{7f}",
            "\u{fb33}abcdefgh",
            "\u{1f600}abcdefgh",
        ];
        if !self.fields {
            let mut map = serializer.serialize_map(None)?;
            for name in NAMES {
                map.serialize_entry(name, &name.len())?;
            }
            return map.end();
        }
        let mut object = serializer.serialize_struct("Names", NAMES.len())?;
        for name in NAMES {
            object.serialize_field(name, &name.len())?;
        }
        object.end()
    }
}

#[test]
fn names_that_begin_alike_are_sorted_by_what_follows() {
    for fields in [false, true] {
        let canonical = Canonical::of(&Names { fields }, &[]).expect("JSON");
        assert_eq!(canonical.as_str(), parsed(&Names { fields }).rfc8785());
    }
}

#[test]
fn an_integer_that_is_rounded_is_named() {
    for amount in [9_007_199_254_740_993, i64::MIN, i64::MAX, 1 << 53, -5, 0] {
        let object = object(7, json!({"deep": [amount]}));
        let (canonical, parsed) = (Canonical::of(&object, &[]), parsed(&object));
        let canonical = canonical.expect("JSON");
        assert_eq!(
            canonical.first_rounded(),
            parsed.first_rounded(),
            "{amount}"
        );
        assert_eq!(canonical.as_str(), parsed.rfc8785());
    }
}

#[test]
fn members_are_left_out_of_the_outermost_object_alone() {
    let value = json!({"a": {"amount": 1}, "amount": i64::MAX, "z": [{"amount": 2}]});
    let canonical = Canonical::of(&value, &["amount", "none"]).expect("JSON");
    assert_eq!(
        canonical.as_str(),
        r#"{"a":{"amount":1},"z":[{"amount":2}]}"#
    );
    assert_eq!(canonical.first_rounded(), None);
    let raw = RawValue::from_string(r#"{"z":1.50,"amount":1,"a":1e2}"#.to_owned());
    let canonical = Canonical::of(&raw.expect("JSON"), &["amount"]).expect("JSON");
    assert_eq!(canonical.as_str(), r#"{"a":100,"z":1.5}"#);
}

#[test]
fn what_only_the_text_knows_is_read_from_it() {
    let free = FreeObject::from_stored(r#"{"z":1, "a":1e2}"#.to_owned()).expect("an object");
    for (canonical, text) in [
        (Canonical::of(&free, &[]), r#"{"a":100,"z":1}"#),
        (Canonical::of(&Word::Of(1), &[]), r#"{"Of":1}"#),
        (Canonical::of(&vec![f64::NAN], &[]), "[null]"),
    ] {
        assert_eq!(canonical.expect("JSON").as_str(), text);
    }
}

/// A value whose members are in any order.
#[derive(Debug, Clone)]
enum Tree {
    Leaf(Value),
    Items(Vec<Tree>),
    Members(Vec<(String, Tree)>),
}

impl serde::Serialize for Tree {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Leaf(value) => value.serialize(serializer),
            Self::Items(items) => serializer.collect_seq(items),
            Self::Members(members) => serializer.collect_map(members.iter().map(|(n, v)| (n, v))),
        }
    }
}

/// Integers about the ends of what a double, and what an integer, holds.
fn any_integer() -> impl Strategy<Value = i64> {
    let ends = vec![0, 1 << 53, -(1 << 53), i64::MIN, i64::MAX, 1 << 62];
    let near = (prop::sample::select(ends), -4..=4i64);
    prop_oneof![
        near.prop_map(|(end, more)| end.saturating_add(more)),
        any::<i64>()
    ]
}

fn any_tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any_integer().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("finite", |number| number.is_finite())
            .prop_map(Value::from),
        any_name().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_map(Tree::Leaf).prop_recursive(4, 40, 6, |inner| {
        let name = prop_oneof![9 => any_name(), 1 => any::<String>()];
        let members = prop::collection::hash_map(name, inner.clone(), 0..6);
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(Tree::Items),
            members.prop_map(|members| Tree::Members(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_value_has_the_canonical_form_of_its_text(tree in any_tree()) {
        let (canonical, of_text) = (Canonical::of(&tree, &[]).expect("JSON"), Canonical::of_json(&parsed(&tree)));
        prop_assert_eq!(canonical.as_str(), of_text.as_str());
        prop_assert_eq!(canonical.first_rounded(), of_text.first_rounded());
    }
}
