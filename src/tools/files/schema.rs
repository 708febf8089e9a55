//! The JSON Schema of a file, for editors.

use serde_json::{Value, json};

use super::forms::{Forms, is_amount};
use super::kinds::TENANT;

/// The schema, made of the declarations that read requests.
pub fn schema() -> Value {
    let mut tenant = Forms::new().schema(&TENANT).clone();
    allow_money(&mut tenant);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Budgets in a file: what `budget-authority apply` takes",
        "type": "object",
        "required": ["tenants"],
        "additionalProperties": false,
        "properties": {"tenants": {"type": "array", "items": tenant}},
    })
}

/// An amount may also be an integer, or money as people write it.
fn allow_money(schema: &mut Value) {
    if is_amount(schema) {
        let mut whole = schema.take();
        let description = whole
            .as_object_mut()
            .and_then(|whole| whole.remove("description"));
        *schema = json!({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}, whole]});
        if let Some(description) = description {
            schema["description"] = description;
        }
        return;
    }
    match schema {
        Value::Object(members) => members.values_mut().for_each(allow_money),
        Value::Array(items) => items.iter_mut().for_each(allow_money),
        _ => {}
    }
}
