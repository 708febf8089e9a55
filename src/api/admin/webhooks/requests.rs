//! The owner of a new webhook subscription.

use axum::http::StatusCode;

use crate::api::admin::extract::Target;
use crate::api::errors::{ApiError, Code};
use crate::api::query::Query;
use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;
use crate::domain::printable::printable;
use crate::domain::tenant::SYSTEM;
use crate::domain::webhook::Owner;

/// The owner of the subscription to create: the API key's tenant, or whom the query names.
impl Target for Owner {
    /// A tenant that cannot exist is not found, but a blank one is a mistake: not the same as none.
    fn read(_: String, query: &str, caller: &Caller) -> Result<Self, ApiError> {
        if let Caller::Tenant(caller) = caller {
            return Ok(Self::Tenant(caller.tenant.clone()));
        }
        let named = url::form_urlencoded::parse(query.as_bytes());
        let blank = named
            .filter(|(name, _)| name == "tenant_id")
            .any(|(_, value)| value.trim().is_empty());
        if blank {
            let message = "Invalid value for parameter 'tenant_id': it must not be blank; leave it out for a webhook of \
                           the operator";
            return Err(ApiError::invalid(message));
        }
        match Query::parse_admin(query).get("tenant_id")? {
            None | Some("system" | SYSTEM) => Ok(Self::System),
            Some(tenant) => TenantId::parse(tenant).map(Self::Tenant).ok_or_else(|| {
                let message = format!("There is no tenant {}", printable(tenant));
                ApiError::new(StatusCode::NOT_FOUND, Code::TenantNotFound, message)
            }),
        }
    }

    fn selected(&self) -> Vec<(&'static str, &str)> {
        vec![("tenant_id", self.as_str())]
    }
}
