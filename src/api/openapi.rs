//! placeholder
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, Object, ObjectBuilder, Schema, Type};

pub(super) fn metadata_map() -> Object {
    let text = RefOr::T(Schema::Object(Object::with_type(Type::String)));
    ObjectBuilder::new()
        .additional_properties(Some(AdditionalProperties::RefOr(text)))
        .max_properties(Some(32))
        .build()
}
