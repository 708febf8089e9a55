//! Values that satisfy a schema, and values that just fail it.

use serde_json::{Map, Value, json};

pub fn resolved(document: &Value, schema: &Value) -> Value {
    match schema["$ref"].as_str() {
        Some(reference) => document
            .pointer(&reference[1..])
            .expect("it leads somewhere")
            .clone(),
        None => schema.clone(),
    }
}

/// A value that satisfies a schema, with every member that it has.
pub fn sample(document: &Value, schema: &Value) -> Value {
    let schema = resolved(document, schema);
    if let Some(words) = schema["enum"].as_array() {
        return words[0].clone();
    }
    match schema["type"].as_str().expect("a type") {
        "string" if schema["format"] == "date-time" => json!("2099-07-04T12:00:00Z"),
        "string" if schema["example"].is_string() => schema["example"].clone(),
        "string" => json!("acme"),
        "number" => schema.get("minimum").cloned().unwrap_or(json!(0.5)),
        "integer" => schema.get("minimum").cloned().unwrap_or(json!(0)),
        "boolean" => json!(true),
        "array" => json!([sample(document, &schema["items"])]),
        _ => {
            let mut object = Map::new();
            for (name, property) in schema["properties"].as_object().unwrap_or(&Map::new()) {
                object.insert(name.clone(), sample(document, property));
            }
            if schema["additionalProperties"].is_object() {
                object.insert(
                    "key".to_owned(),
                    sample(document, &schema["additionalProperties"]),
                );
            }
            Value::Object(object)
        }
    }
}

/// Values that break one rule of a schema each.
pub fn violations(schema: &Value) -> Vec<Value> {
    let kind = schema["type"].as_str().expect("a type");
    let of_kinds = [
        ("string", json!("text")),
        ("integer", json!(7)),
        ("boolean", json!(true)),
        ("array", json!([])),
        ("object", json!({})),
    ];
    let mut bad: Vec<Value> = of_kinds
        .into_iter()
        .filter(|(other, _)| *other != kind && !(*other == "integer" && kind == "number"))
        .map(|(_, value)| value)
        .collect();
    if kind == "integer" {
        bad.extend([
            json!("7"),
            json!(7.5),
            json!(7.0),
            json!(9_223_372_036_854_775_808_u64),
        ]);
    }
    if let Some(words) = schema["enum"].as_array() {
        bad.extend([json!("SURPRISE"), json!(""), json!("a\u{0}")]);
        bad.extend(
            words[0]
                .as_str()
                .map(|word| json!(word.to_ascii_lowercase()))
                .filter(|word| !words.contains(word)),
        );
    }
    if schema["format"] == "date-time" {
        bad.extend([
            json!("yesterday"),
            json!("2026-07-04"),
            json!("1790000000000"),
        ]);
    }
    if schema["pattern"].is_string() {
        bad.extend([json!("a/b"), json!("a b c"), json!("äää"), json!("acme\n")]);
    }
    if kind == "number" {
        bad.push(json!("0.5"));
        let bound = |name: &str| schema[name].as_f64();
        bad.extend(bound("minimum").map(|min| json!(min - 0.001)));
        bad.extend(bound("maximum").map(|max| json!(max + 0.001)));
        return bad;
    }
    let bound = |name: &str| schema[name].as_i64();
    bad.extend(bound("minimum").map(|min| json!(min - 1)));
    bad.extend(bound("maximum").map(|max| json!(max + 1)));
    bad.extend(bound("minLength").map(|min| json!("a".repeat(min as usize - 1))));
    bad.extend(bound("maxLength").map(|max| json!("a".repeat(max as usize + 1))));
    bad.extend(bound("maxItems").map(|max| json!(vec!["a"; max as usize + 1])));
    bad.extend(bound("maxProperties").map(|max| entries(max + 1)));
    bad
}

/// Values at the bounds of a schema.
pub fn limits(schema: &Value) -> Vec<Value> {
    let bound = |name: &str| schema[name].as_i64();
    let mut good = Vec::new();
    good.extend(bound("minimum").map(|min| json!(min)));
    good.extend(bound("maximum").map(|max| json!(max)));
    if schema["type"] == "integer" && bound("maximum").is_none() {
        good.push(json!(i64::MAX));
    }
    good.extend(bound("minLength").map(|min| json!("a".repeat(min as usize))));
    let wide = if schema["pattern"].is_string() {
        "a"
    } else {
        "漢"
    };
    good.extend(bound("maxLength").map(|max| json!(wide.repeat(max as usize))));
    let of_texts = schema["items"]["$ref"].is_null();
    let most = bound("maxItems").filter(|_| of_texts);
    good.extend(most.map(|max| json!(vec!["a"; max as usize])));
    good.extend(bound("maxProperties").map(entries));
    good.extend(schema["enum"].as_array().into_iter().flatten().cloned());
    good
}

fn entries(count: i64) -> Value {
    (0..count)
        .map(|index| (format!("k{index}"), json!("v")))
        .collect::<Map<_, _>>()
        .into()
}
