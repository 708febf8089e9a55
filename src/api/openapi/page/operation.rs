//! Operations of the description, each with the command that calls it and what it returns.

use serde_json::Value;

use super::html::{escaped, inline};
use super::json::pretty;
use super::schema::{last, row, type_of};

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
pub(super) fn section(path: &str, method: &str, operation: &Value, document: &Value) -> String {
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

/// Which keys open it.
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

/// What a request or response holds as JSON.
fn json_of(holder: &Value) -> &Value {
    &holder["content"]["application/json"]
}

/// The command that calls the operation, and the response to it.
fn example(path: &str, method: &str, operation: &Value) -> String {
    let succeeded = operation["responses"].as_object().into_iter().flatten();
    let mut succeeded = succeeded.filter(|(status, _)| status.starts_with('2'));
    let response = succeeded.find_map(|(status, response)| {
        let body = json_of(response).get("example");
        let body = body.map_or_else(String::new, pretty);
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
        let body = pretty(body).replace('\'', "'\\''");
        command += &format!(" -H \"$JSON\" -d '{body}'");
    }
    command
}
