//! Schemas of the description as tables.

use serde_json::Value;

use super::html::{escaped, inline, paragraphs};

/// Keywords of a schema, and how the page names them.
const BOUNDS: [(&str, &str); 8] = [
    ("minimum", "at least"),
    ("maximum", "at most"),
    ("minLength", "length from"),
    ("maxLength", "length up to"),
    ("maxItems", "items up to"),
    ("maxProperties", "entries up to"),
    ("pattern", "pattern"),
    ("default", "default"),
];

/// The section of a schema that others refer to.
pub(super) fn section(name: &str, schema: &Value) -> String {
    let description = paragraphs(schema["description"].as_str().unwrap_or_default());
    let content = match schema["properties"].as_object() {
        Some(properties) => {
            let rows = properties.iter().map(|(member, property)| {
                let required = schema["required"].as_array();
                let required =
                    required.is_some_and(|names| names.iter().any(|name| name == member));
                row(member, required, property, &property["description"])
            });
            format!("<table>\n{}</table>\n", rows.collect::<String>())
        }
        None => format!(
            "<p>{}<small>{}</small></p>\n",
            type_of(schema),
            bounds_of(schema)
        ),
    };
    let name = escaped(name);
    format!("<section id=\"schema-{name}\">\n<h3>{name}</h3>\n{description}{content}</section>\n")
}

/// A row of a member or parameter.
pub(super) fn row(name: &str, required: bool, schema: &Value, description: &Value) -> String {
    let need = if required { "required" } else { "optional" };
    format!(
        "<tr><td>{}<small>{need}</small></td><td>{}<small>{}</small>{}</td></tr>\n",
        escaped(name),
        type_of(schema),
        bounds_of(schema),
        inline(description.as_str().unwrap_or_default())
    )
}

/// The type of a schema, with links to those that it refers to.
pub(super) fn type_of(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = escaped(last(reference));
        return format!("<a href=\"#schema-{name}\">{name}</a>");
    }
    let entries = &schema["additionalProperties"];
    let (kind, format) = (schema["type"].as_str(), schema["format"].as_str());
    match (kind, format) {
        (Some("array"), _) => format!("array of {}", type_of(&schema["items"])),
        _ if entries["type"].is_string() => format!("map to {}", type_of(entries)),
        (Some(kind), Some(format)) => format!("{} ({})", escaped(kind), escaped(format)),
        (Some(kind), None) => escaped(kind),
        (None, _) => "any".to_owned(),
    }
}

/// The last part of a reference: the name of what it refers to.
pub(super) fn last(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap_or(reference)
}

fn bounds_of(schema: &Value) -> String {
    let bounds = BOUNDS.iter().filter_map(|(keyword, words)| {
        let bound = schema.get(keyword)?;
        Some(format!("{words} {}", text_of(bound)))
    });
    let one_of = schema["enum"].as_array().map(|words| {
        let words: Vec<_> = words.iter().map(text_of).collect();
        format!("one of {}", words.join(", "))
    });
    let bounds: Vec<_> = bounds.chain(one_of).collect();
    escaped(&bounds.join("; "))
}

/// A text without its quotes, anything else as JSON.
fn text_of(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}
