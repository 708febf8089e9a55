//! Descriptions of values that no derive can describe.

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AdditionalProperties, Array, ArrayBuilder, Object, ObjectBuilder, Schema, Type,
};

/// A map from any names to strings, as [`super::Value::string_map`] reads it.
pub fn string_map(description: &str, entries_max: usize, chars_max: Option<usize>) -> Object {
    let value = RefOr::T(Schema::Object(string(chars_max)));
    ObjectBuilder::new()
        .additional_properties(Some(AdditionalProperties::RefOr(value)))
        .description(Some(description))
        .max_properties(Some(entries_max))
        .build()
}

/// An array of strings.
pub fn string_array(description: &str, items_max: Option<usize>, chars_max: usize) -> Array {
    ArrayBuilder::new()
        .description(Some(description))
        .items(string(Some(chars_max)))
        .max_items(items_max)
        .build()
}

fn string(chars_max: Option<usize>) -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .max_length(chars_max)
        .build()
}
