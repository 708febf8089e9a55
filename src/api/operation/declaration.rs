//! What a module declares of its operation: everything but method, path and callers, which stand in the index.

use std::collections::BTreeMap;

use axum::routing::{MethodFilter, MethodRouter};
use serde_json::{Map, Value, json as object};
use utoipa::ToSchema;

use super::parameters::Parameter;
use crate::api::state::AppState;

/// What an operation takes and returns, and its handler. Several operations may share one.
pub struct Declaration {
    /// What it does, in a sentence without a full stop.
    pub summary: &'static str,
    /// Of path, query string and headers.
    pub parameters: fn() -> Vec<Parameter>,
    /// Its body, if it takes one.
    pub request: Option<Request>,
    /// What it returns when it succeeds.
    pub responses: &'static [Response],
    /// Statuses of its refusals, besides those that every operation has ([`ERRORS`]) or every body ([`BODY_ERRORS`]).
    pub errors: &'static [u16],
    /// Its route: `|method| on(method, handler)`.
    pub handler: fn(MethodFilter) -> MethodRouter<AppState>,
}

/// Statuses that every operation may refuse with.
pub const ERRORS: [u16; 6] = [400, 401, 403, 429, 500, 503];
/// Statuses that every operation with a body may refuse with besides.
pub const BODY_ERRORS: [u16; 2] = [413, 415];

/// A request body.
#[derive(Clone, Copy)]
pub struct Request {
    /// Whether it must be sent.
    pub required: bool,
    /// Its type.
    pub schema: SchemaOf,
}

/// A body that must be sent.
pub const fn required<T: ToSchema>() -> Option<Request> {
    let (required, schema) = (true, schema_of::<T> as SchemaOf);
    Some(Request { required, schema })
}

/// A body that may be absent.
pub const fn optional<T: ToSchema>() -> Option<Request> {
    let (required, schema) = (false, schema_of::<T> as SchemaOf);
    Some(Request { required, schema })
}

/// A response to a request that succeeded.
#[derive(Clone, Copy)]
pub struct Response {
    /// Its status.
    pub status: u16,
    /// What it holds, in a sentence.
    pub description: &'static str,
    /// The type of its body, if it has one.
    pub schema: Option<SchemaOf>,
}

/// A response with a JSON body.
pub const fn json<T: ToSchema>(status: u16, description: &'static str) -> Response {
    let schema = Some(schema_of::<T> as SchemaOf);
    Response {
        status,
        description,
        schema,
    }
}

/// A response without a body: 204.
pub const fn empty(description: &'static str) -> Response {
    Response {
        status: 204,
        description,
        schema: None,
    }
}

/// Adds a type to the schemas of the description and refers to it.
pub type SchemaOf = fn(&mut Schemas) -> Value;

/// The schemas that operations refer to, by name.
#[derive(Default)]
pub struct Schemas(BTreeMap<String, Value>);

impl Schemas {
    /// The schemas as one JSON object.
    pub fn into_values(self) -> Value {
        self.0.into_iter().collect::<Map<_, _>>().into()
    }

    fn insert(&mut self, name: String, schema: &impl serde::Serialize) {
        self.0
            .entry(name)
            .or_insert_with(|| serde_json::to_value(schema).expect("schemas are JSON"));
    }
}

/// A reference to the schema of `T`, which is added with all that it refers to.
pub fn schema_of<T: ToSchema>(schemas: &mut Schemas) -> Value {
    let mut referred = Vec::new();
    T::schemas(&mut referred);
    for (name, schema) in referred {
        schemas.insert(name, &schema);
    }
    let name = T::name().into_owned();
    schemas.insert(name.clone(), &T::schema());
    object!({"$ref": format!("#/components/schemas/{name}")})
}
