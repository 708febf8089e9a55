//! An operation: a row of the index ([`crate::api::operations`]), and the declaration that the row names.

mod declaration;
pub mod parameters;

pub(crate) use declaration::declare;
pub use declaration::{BODY_ERRORS, Declaration, ERRORS, PUBLIC_ERRORS, schema_of};

use std::borrow::Cow;

use axum::http::Method;
use axum::routing::MethodFilter;

use crate::domain::api_key::permission::Permission;
use crate::domain::dialect::Dialect;
use crate::domain::words::words;

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
    Plane: "snake_case" {
        /// Operations for agents and their gateways.
        Runtime,
        /// Operations for operators, dashboards, and tenants that manage themselves.
        Admin,
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

    /// The permission that an API key needs; empty where none is asked for.
    pub fn permission(self) -> &'static str {
        match self {
            Self::Tenant(Some(permission)) | Self::Both(Some(permission)) => permission.as_str(),
            Self::Admin | Self::Public | Self::Tenant(None) | Self::Both(None) => "",
        }
    }
}
