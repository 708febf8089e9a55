//! Query strings of the operations on webhook subscriptions.

use axum::http::StatusCode;
use serde_json::json;

use crate::admin::webhooks::{
    DeliveryFilter, OwnerFilter, TenantWebhookFilter, WebhookFilter, WebhookSort,
};
use crate::api::admin::extract::Target;
use crate::api::errors::{ApiError, Code};
use crate::api::list::{List, Parameters};
use crate::api::query::Query;
use crate::domain::caller::Caller;
use crate::domain::event::types::EventType;
use crate::domain::ids::TenantId;
use crate::domain::printable::printable;
use crate::domain::webhook::Owner;
use crate::listing::OneOrder;

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
            None | Some("system" | Self::SYSTEM) => Ok(Self::System),
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

/// The list of all subscriptions: `GET /v1/admin/webhooks`.
#[derive(Debug)]
pub struct AllWebhooks;

impl List for AllWebhooks {
    const NAME: &'static str = "webhooks";
    type Filter = WebhookFilter;
    type Sort = WebhookSort;

    fn filter(parameters: &mut Parameters<'_>) -> Result<WebhookFilter, ApiError> {
        let about = "The owner: a tenant, or `__system__` for the operator.";
        let tenant = parameters.text("tenant_id", about)?;
        let status = parameters.word("status", ABOUT_STATUS)?;
        // The set of types is open: one that is not known is in no list.
        let schema = || json!({"type": "string", "enum": EventType::WORDS});
        let about = "The event type that subscriptions select by name.";
        let any = |text: &str| Some(text.to_owned());
        let event_type =
            parameters.parsed("event_type", about, schema, (any, ""), String::clone)?;
        let about = "What id or address must contain, whatever the case.";
        Ok(WebhookFilter {
            owner: match tenant.as_deref() {
                Some("system") => OwnerFilter::Of(Owner::System),
                tenant => OwnerFilter::named(tenant),
            },
            status,
            event_type,
            search: parameters.search(about)?,
        })
    }
}

const ABOUT_STATUS: &str = "The status of the subscriptions.";

/// The list of one tenant's subscriptions: `GET /v1/webhooks`.
#[derive(Debug)]
pub struct TenantWebhooks;

impl List for TenantWebhooks {
    const NAME: &'static str = "tenant webhooks";
    const SORTABLE: bool = false;
    type Filter = TenantWebhookFilter;
    type Sort = OneOrder;

    fn filter(parameters: &mut Parameters<'_>) -> Result<TenantWebhookFilter, ApiError> {
        let about = "The tenant. Required with the admin key; must be absent with an API key.";
        Ok(TenantWebhookFilter {
            tenant: parameters.unbound_text("tenant", about)?,
            status: parameters.word("status", ABOUT_STATUS)?,
        })
    }
}

/// Whose subscriptions are listed. The admin names a tenant; a tenant's key names its own by itself.
///
/// # Errors
/// 400 when the parameter is missing, or must not be there.
pub fn listed_tenant(filter: &TenantWebhookFilter, caller: &Caller) -> Result<String, ApiError> {
    match (caller, &filter.tenant) {
        (Caller::Admin(_), Some(tenant)) => Ok(tenant.clone()),
        (Caller::Admin(_), None) => Err(ApiError::invalid("Missing required parameter: tenant")),
        (Caller::Tenant(caller), None) => Ok(caller.tenant.to_string()),
        (Caller::Tenant(_), Some(_)) => Err(ApiError::invalid(
            "Invalid value for parameter 'tenant': it must be absent with an API key, which names its tenant itself",
        )),
    }
}

/// The list of the deliveries to a subscription: `GET …/deliveries`.
#[derive(Debug)]
pub struct Deliveries;

impl List for Deliveries {
    const NAME: &'static str = "deliveries";
    const SORTABLE: bool = false;
    type Filter = DeliveryFilter;
    type Sort = OneOrder;

    fn filter(parameters: &mut Parameters<'_>) -> Result<DeliveryFilter, ApiError> {
        let about = ["Not queued before.", "Not queued after."];
        Ok(DeliveryFilter {
            status: parameters.word("status", "The status of the deliveries.")?,
            window: parameters.window(["from", "to"], about)?,
        })
    }
}
