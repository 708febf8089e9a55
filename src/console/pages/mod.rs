//! The pages, each by what it shows.

pub(super) mod budget;
pub(super) mod change;
pub(super) mod charges;
pub(super) mod denials;
pub(super) mod events;
pub(super) mod evidence;
pub(super) mod keys;
pub(super) mod lists;
pub(super) mod overview;
pub(super) mod reservation;
pub(super) mod spend;
pub(super) mod tenants;
pub(super) mod usage;
pub(super) mod webhooks;

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Redirect, Response};
use serde_json::{Value, json};

use super::operations::Refused;
use super::render::{refusal, render};
use super::session::Reader;
use crate::api::operations::OperationId;

/// Rows of a page of a list.
const ROWS: &str = "50";

impl Reader {
    /// A page for this reader. `context`: an object.
    fn page(&self, name: &str, mut context: Value) -> Response {
        context["reader"] = json!({"name": self.name, "tenant": self.tenant});
        context["now_ms"] = self.now_ms.into();
        context["path"] = self.path.as_str().into();
        render(StatusCode::OK, name, context)
    }

    /// The tenant whose objects a page is about: the reader's own, or the one that an operator names.
    fn tenant_or<'a>(&'a self, named: &'a str) -> &'a str {
        self.tenant.as_deref().unwrap_or(named)
    }

    /// The tenant as a parameter: none for the holder of an API key, whose tenant every operation knows.
    fn naming<'a>(&self, named: &'a str) -> &'a str {
        if self.tenant.is_some() { "" } else { named }
    }

    /// Of two operations, the one that the reader may call: for operators, or for the holder of an API key.
    fn may(&self, all: OperationId, own: OperationId) -> OperationId {
        if self.tenant.is_some() { own } else { all }
    }

    /// The list of events that the reader may see.
    fn events(&self) -> OperationId {
        self.may(OperationId::ListEvents, OperationId::ListTenantEvents)
    }
}

/// The page for a change that does not exist.
fn no_such_change() -> Response {
    refusal(StatusCode::NOT_FOUND, "There is no such change.")
}

/// The rows of a page of a list.
fn rows(mut page: Value, member: &str) -> Vec<Value> {
    match page[member].take() {
        Value::Array(rows) => rows,
        _ => Vec::new(),
    }
}

/// The member of an object as text, empty where there is none.
fn text<'a>(object: &'a Value, member: &str) -> &'a str {
    object[member].as_str().unwrap_or_default()
}

impl From<Refused> for Response {
    fn from(refused: Refused) -> Self {
        match refused.status {
            // The key has ended since the login.
            StatusCode::UNAUTHORIZED => Redirect::to("/console/login").into_response(),
            status => refusal(status, &refused.message),
        }
    }
}
