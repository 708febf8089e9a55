//! An operation: a row of the index ([`crate::api::operations`]), and the declaration that the row names.

pub mod parameters;

use std::borrow::Cow;

use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter};

use crate::api::state::AppState;
use crate::domain::api_key::permission::Permission;
use crate::domain::dialect::Dialect;
use crate::domain::fields::{Components, Field, Schema};
use crate::domain::words::words;
use parameters::Parameter;

/// One operation of the API.
pub struct Operation {
    /// The `operationId` of the description; also what audit entries call it.
    pub name: &'static str,
    /// The plane whose rules it follows.
    pub plane: Plane,
    /// Its method. `HEAD` calls a `GET` operation too.
    pub method: Method,
    /// The same for the router.
    pub filter: MethodFilter,
    /// Its path; `{name}` is one segment, `{key_set_file}` a name of the dialect.
    pub path: &'static str,
    /// The callers that may use it.
    pub callers: Callers,
    /// What it takes and returns, and its handler.
    pub declaration: &'static Declaration,
}

/// Placeholder in the index for the file of the key set, whose name depends on the dialect.
const KEY_SET_FILE: &str = "{key_set_file}";

impl Operation {
    /// Its path in a dialect.
    pub fn path_in(&self, dialect: Dialect) -> Cow<'static, str> {
        match self.path.contains(KEY_SET_FILE) {
            true => Cow::Owned(
                self.path
                    .replace(KEY_SET_FILE, dialect.words().key_set_file),
            ),
            false => Cow::Borrowed(self.path),
        }
    }
}

words! {
    /// The two halves of the API. They differ in how they refuse a caller, take a request id, and keep an audit log.
    Plane {
        /// Operations for agents and their gateways.
        Runtime = "runtime",
        /// Operations for operators, dashboards, and tenants that manage themselves.
        Admin = "admin",
    }
}

/// The keys that an operation accepts, and the permission that an API key needs; `None`: every valid key is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Callers {
    /// The admin key alone.
    Admin,
    /// A tenant's API key alone, whatever admin key is sent.
    Tenant(Option<Permission>),
    /// An API key or the admin key; where both are sent, the admin key counts.
    Both(Option<Permission>),
    /// Anybody. A key is not judged, so its route has no authentication.
    Public,
}

impl Callers {
    /// Whether an API key may open it.
    pub fn includes_tenants(self) -> bool {
        !matches!(self, Self::Admin | Self::Public)
    }

    /// Whether the admin key may open it.
    pub fn includes_admin(self) -> bool {
        !matches!(self, Self::Tenant(_) | Self::Public)
    }

    /// The permission that an API key needs; empty where none is asked for.
    pub fn permission(self) -> &'static str {
        match self {
            Self::Tenant(Some(permission)) | Self::Both(Some(permission)) => permission.as_str(),
            Self::Admin | Self::Public | Self::Tenant(None) | Self::Both(None) => "",
        }
    }
}

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
