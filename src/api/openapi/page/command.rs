//! The commands of the examples.

use serde_json::Value;

/// An operation as a command of a shell. The page shows the variables that it uses.
pub(super) fn command(path: &str, method: &str, operation: &Value) -> String {
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
