//! The pages, each by what it shows.

pub(super) mod budget;
pub(super) mod change;
pub(super) mod denials;
pub(super) mod lists;
pub(super) mod overview;
pub(super) mod reservation;
pub(super) mod tenants;
pub(super) mod usage;

use axum::http::StatusCode;
use axum::response::Response;
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

    /// The list of events that the reader may see.
    fn events(&self) -> OperationId {
        match self.tenant {
            Some(_) => OperationId::ListTenantEvents,
            None => OperationId::ListEvents,
        }
    }
}

impl From<Refused> for Response {
    fn from(refused: Refused) -> Self {
        refusal(refused.status, &refused.message)
    }
}
