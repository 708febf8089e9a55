//! The declaration of an operation: everything but method, path and callers, which stand in the index.

use axum::routing::{MethodFilter, MethodRouter};

use super::parameters::Parameter;
use crate::api::state::AppState;
use crate::domain::fields::{Components, Field, Schema};

/// What an operation takes and returns, and its handler. Several operations may share one.
///
/// `declare!(handler, "Summary").takes_change::<Body>().returns::<Body>(201, "The new one.").refuses(&[409])`
#[derive(Clone, Copy)]
pub struct Declaration {
    /// Summary: a sentence without a full stop.
    pub summary: &'static str,
    /// Parameters of its query string.
    pub query: fn() -> Vec<Parameter>,
    /// Whether it takes the header with the idempotency key.
    pub idempotent: bool,
    /// Its body, if it takes one.
    pub request: Option<Request>,
    /// The successful responses.
    pub responses: [Option<Response>; 2],
    /// Statuses of its refusals, besides those that every operation has ([`ERRORS`]) or every body ([`BODY_ERRORS`]).
    pub errors: &'static [u16],
    /// Its route, for a method.
    pub handler: fn(MethodFilter) -> MethodRouter<AppState>,
}

/// Declares an operation by its handler and its summary.
macro_rules! declare {
    ($handler:path, $summary:literal $(,)?) => {
        crate::api::operation::Declaration::new($summary, |method| {
            axum::routing::on(method, $handler)
        })
    };
}
pub(crate) use declare;

impl Declaration {
    /// An operation without parameters, body, response and refusals of its own.
    pub const fn new(
        summary: &'static str,
        handler: fn(MethodFilter) -> MethodRouter<AppState>,
    ) -> Self {
        Self {
            summary,
            query: Vec::new,
            idempotent: false,
            request: None,
            responses: [None; 2],
            errors: &[],
            handler,
        }
    }

    /// With parameters of the query string.
    pub const fn query(self, query: fn() -> Vec<Parameter>) -> Self {
        Self { query, ..self }
    }

    /// With the header of the idempotency key.
    pub const fn idempotent(self) -> Self {
        Self {
            idempotent: true,
            ..self
        }
    }

    /// With a body that must be sent, and the header of the idempotency key.
    pub const fn takes_change<T: Field<Rules = ()>>(self) -> Self {
        self.idempotent().with_request::<T>(true)
    }

    /// With a body that must be sent.
    pub const fn takes<T: Field<Rules = ()>>(self) -> Self {
        self.with_request::<T>(true)
    }

    /// With a body that may be absent.
    pub const fn may_take<T: Field<Rules = ()>>(self) -> Self {
        self.with_request::<T>(false)
    }

    const fn with_request<T: Field<Rules = ()>>(self, required: bool) -> Self {
        let schema = schema_of::<T> as SchemaOf;
        let request = Some(Request { required, schema });
        Self { request, ..self }
    }

    /// With a JSON body as its response, or as one more.
    pub const fn returns<T: Field<Rules = ()>>(
        self,
        status: u16,
        description: &'static str,
    ) -> Self {
        let schema = Some(schema_of::<T> as SchemaOf);
        self.with_response(Response {
            status,
            description,
            schema,
        })
    }

    /// With a response without a body: 204.
    pub const fn returns_nothing(self, description: &'static str) -> Self {
        self.with_response(Response {
            status: 204,
            description,
            schema: None,
        })
    }

    const fn with_response(self, response: Response) -> Self {
        let responses = match self.responses {
            [None, _] => [Some(response), None],
            [first, _] => [first, Some(response)],
        };
        Self { responses, ..self }
    }

    /// With statuses of refusals, besides those that every operation has.
    pub const fn refuses(self, errors: &'static [u16]) -> Self {
        Self { errors, ..self }
    }
}

/// Statuses that every operation may refuse with.
pub const ERRORS: [u16; 6] = [400, 401, 403, 429, 500, 503];
/// Statuses that every operation without authentication may refuse with.
pub const PUBLIC_ERRORS: [u16; 3] = [429, 500, 503];
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

/// A response to a request that succeeded.
#[derive(Clone, Copy)]
pub struct Response {
    /// Its status.
    pub status: u16,
    /// Description, in a sentence.
    pub description: &'static str,
    /// The type of its body, if it has one.
    pub schema: Option<SchemaOf>,
}

/// Adds a type to the schemas of the description and refers to it.
pub type SchemaOf = fn(&mut Components) -> Schema;

/// A reference to the schema of `T`, which is added with all that it refers to.
pub fn schema_of<T: Field<Rules = ()>>(components: &mut Components) -> Schema {
    T::schema(&(), components)
}
