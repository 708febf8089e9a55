//! Sections of the page: operations, each with the command that calls it and what it returns, and schemas as tables. All texts of the
//! description pass [`escaped`], so that none can become markup of its own.

use serde_json::Value;

/// The variables that the commands use, as in the first steps of the documents: base URL, headers of both keys, content type.
pub(super) fn variables(document: &Value) -> String {
    let header = |scheme: &str| {
        let name = &document["components"]["securitySchemes"][scheme]["name"];
        escaped(name.as_str().unwrap_or_default())
    };
    format!(
        "URL=http://127.0.0.1:7878/v1\nKEY=&quot;{}: your API key&quot;\nADMIN=&quot;{}: your admin key&quot;\n\
         JSON=&#39;Content-Type: application/json&#39;",
        header("ApiKeyAuth"),
        header("AdminKeyAuth")
    )
}

/// The section of one operation.
pub(super) fn of_operation(
    path: &str,
    method: &str,
    operation: &Value,
    document: &Value,
) -> String {
    let text = |member: &str| operation[member].as_str().unwrap_or_default();
    format!(
        "<section id=\"{}\">\n<h3><b>{}</b>{}</h3>\n<p>{}</p>\n<small>{}</small>\n{}{}{}{}</section>\n",
        escaped(text("operationId")),
        escaped(method),
        escaped(path),
        inline(text("summary")),
        keys(operation, document),
        parameters(operation),
        request(operation),
        responses(operation, document),
        example(path, method, operation)
    )
}

/// The keys that it accepts.
fn keys(operation: &Value, document: &Value) -> String {
    let schemes = operation["security"].as_array().into_iter().flatten();
    let names = schemes.filter_map(|scheme| scheme.as_object()?.keys().next());
    let headers: Vec<_> = names
        .filter_map(|name| document["components"]["securitySchemes"][name]["name"].as_str())
        .map(escaped)
        .collect();
    match headers.is_empty() {
        true => "Needs no key".to_owned(),
        false => format!("Key: {}", headers.join(" or ")),
    }
}

fn parameters(operation: &Value) -> String {
    let Some(parameters) = operation["parameters"].as_array() else {
        return String::new();
    };
    let rows = parameters.iter().map(|parameter| {
        let text = |member: &str| parameter[member].as_str().unwrap_or_default();
        let name = format!("{} ({})", text("name"), text("in"));
        let required = parameter["required"] == true;
        row(
            &name,
            required,
            &parameter["schema"],
            &parameter["description"],
        )
    });
    format!(
        "<h4>Parameters</h4>\n<table>\n{}</table>\n",
        rows.collect::<String>()
    )
}

fn request(operation: &Value) -> String {
    match operation.get("requestBody") {
        Some(body) => format!(
            "<h4>Request</h4>\n<p>{}</p>\n",
            type_of(&json_of(body)["schema"])
        ),
        None => String::new(),
    }
}

fn responses(operation: &Value, document: &Value) -> String {
    let mut all: Vec<(String, &Value)> = Vec::new();
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        match all.iter_mut().find(|(_, known)| *known == response) {
            Some((statuses, _)) => *statuses += &format!(", {status}"),
            None => all.push((status.clone(), response)),
        }
    }
    let rows = all.iter().map(|(statuses, response)| {
        let known = match response["$ref"].as_str() {
            Some(reference) => &document["components"]["responses"][last(reference)],
            None => response,
        };
        let content = &json_of(known)["schema"];
        let content = match content.is_null() {
            true => "no body".to_owned(),
            false => type_of(content),
        };
        let description = inline(known["description"].as_str().unwrap_or_default());
        format!(
            "<tr><td>{}</td><td>{content}<small>{description}</small></td></tr>\n",
            escaped(statuses)
        )
    });
    format!(
        "<h4>Responses</h4>\n<table>\n{}</table>\n",
        rows.collect::<String>()
    )
}

/// The JSON of a request or response.
fn json_of(holder: &Value) -> &Value {
    &holder["content"]["application/json"]
}

/// The command that calls the operation, and the response to it.
fn example(path: &str, method: &str, operation: &Value) -> String {
    let succeeded = operation["responses"].as_object().into_iter().flatten();
    let mut succeeded = succeeded.filter(|(status, _)| status.starts_with('2'));
    let response = succeeded.find_map(|(status, response)| {
        let body = json_of(response).get("example");
        let body = body.map_or_else(String::new, |body| format!("{body:#}"));
        let has_content = response.get("content").is_some();
        (!has_content || !body.is_empty()).then_some((status, body))
    });
    let Some((status, body)) = response else {
        return String::new();
    };
    let body = match body.is_empty() {
        true => String::new(),
        false => format!("<pre>{}</pre>\n", escaped(&body)),
    };
    format!(
        "<h4>Example</h4>\n<pre>{}</pre>\n<p>Response {}:</p>\n{body}",
        escaped(&command(path, method, operation)),
        escaped(status)
    )
}

/// The operation as a command of a shell.
fn command(path: &str, method: &str, operation: &Value) -> String {
    let mut url = path.strip_prefix("/v1").unwrap_or(path).to_owned();
    let mut query = Vec::new();
    for parameter in operation["parameters"].as_array().into_iter().flatten() {
        let (Some(name), Some(value)) = (parameter["name"].as_str(), parameter["example"].as_str())
        else {
            continue;
        };
        match parameter["in"].as_str() {
            Some("path") => url = url.replace(&format!("{{{name}}}"), value),
            _ => query.push(format!("{name}={value}")),
        }
    }
    if !query.is_empty() {
        url = format!("{url}?{}", query.join("&"));
    }
    let body = operation["requestBody"]["content"]["application/json"].get("example");
    // `curl` makes it a POST where there is a body.
    let implied = if body.is_some() { "post" } else { "get" };
    let mut command = "curl -sS".to_owned();
    if method != implied {
        command += &format!(" -X {}", method.to_uppercase());
    }
    command += &format!(" \"$URL{url}\"");
    let opened_by = |scheme: &str| operation["security"].to_string().contains(scheme);
    if opened_by("ApiKeyAuth") {
        command += " -H \"$KEY\"";
    } else if opened_by("AdminKeyAuth") {
        command += " -H \"$ADMIN\"";
    }
    if let Some(body) = body {
        let body = format!("{body:#}").replace('\'', "'\\''");
        command += &format!(" -H \"$JSON\" -d '{body}'");
    }
    command
}

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
pub(super) fn of_schema(name: &str, schema: &Value) -> String {
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
fn row(name: &str, required: bool, schema: &Value, description: &Value) -> String {
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
fn type_of(schema: &Value) -> String {
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
fn last(reference: &str) -> &str {
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

/// A text escaped for use between tags and in a quoted attribute.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
        .replace('\'', "&#39;")
}

/// Markdown inside a line: `code`. Anything else is text.
fn inline(markdown: &str) -> String {
    let (mut html, mut rest) = (String::new(), markdown);
    while let Some((before, code, after)) = next_code(rest) {
        html += &format!("{}<code>{}</code>", escaped(before), escaped(code));
        rest = after;
    }
    html + &escaped(rest)
}

/// The first part between two marks, with what precedes and what follows it.
fn next_code(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('`')?;
    let (code, after) = rest.split_once('`')?;
    Some((before, code, after))
}

/// Markdown in paragraphs, which an empty line separates.
pub(super) fn paragraphs(markdown: &str) -> String {
    let paragraphs = markdown.split("\n\n").map(str::trim);
    let filled = paragraphs.filter(|text| !text.is_empty());
    filled
        .map(|text| format!("<p>{}</p>\n", inline(text)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_becomes_html_and_markup_in_it_stays_text() {
        for (markdown, html) in [
            ("plain", "plain"),
            (
                "`<b>` & '\"'",
                "<code>&lt;b&gt;</code> &amp; &#39;&quot;&#39;",
            ),
            ("[x](javascript:alert(1))", "[x](javascript:alert(1))"),
            (
                "<script>alert(1)</script>",
                "&lt;script&gt;alert(1)&lt;/script&gt;",
            ),
            (
                "`********` and `*`",
                "<code>********</code> and <code>*</code>",
            ),
            ("a * b ` c [ d ](", "a * b ` c [ d ]("),
            ("array[] of [a, b]", "array[] of [a, b]"),
        ] {
            assert_eq!(inline(markdown), html, "{markdown}");
        }
        assert_eq!(
            paragraphs("a\n\n`b`\n"),
            "<p>a</p>\n<p><code>b</code></p>\n"
        );
    }
}
