//! Query strings of the operations on webhook subscriptions.

use serde_json::json;

use crate::admin::webhooks::{
    DeliveryFilter, OwnerFilter, TenantWebhookFilter, WebhookFilter, WebhookSort,
};
use crate::api::errors::ApiError;
use crate::api::list::{List, Parameters};
use crate::api::query::Query;
use crate::domain::caller::Caller;
use crate::domain::event::types::EventType;
use crate::domain::ids::TenantId;
use crate::domain::printable::printable;
use crate::domain::webhook::Owner;
use crate::listing::OneOrder;

/// Whose subscription is to be made.
#[derive(Debug)]
pub struct OwnerQuery {
    /// A tenant, or the operator.
    pub owner: Owner,
}

impl OwnerQuery {
    /// Reads the query string. A tenant that cannot exist is not found, but a blank one is a mistake: not the same as none.
    ///
    /// # Errors
    /// 400 for a blank tenant, 404 for one that cannot exist.
    pub fn parse(query: &str) -> Result<Self, ApiError> {
        let named = url::form_urlencoded::parse(query.as_bytes());
        let blank = named
            .filter(|(name, _)| name == "tenant_id")
            .any(|(_, value)| value.trim().is_empty());
        if blank {
            let message = "Invalid value for parameter 'tenant_id': it must not be blank; leave it out for a webhook of \
                           the operator";
            return Err(ApiError::invalid(message));
        }
        let query = Query::parse_admin(query);
        let owner = match query.get("tenant_id")? {
            None | Some("system" | Owner::SYSTEM) => Owner::System,
            Some(tenant) => {
                let tenant_id = TenantId::parse(tenant).map(Owner::Tenant);
                let message = || format!("There is no tenant {}", printable(tenant));
                tenant_id.ok_or_else(|| {
                    let status = axum::http::StatusCode::NOT_FOUND;
                    ApiError::new(status, crate::api::errors::Code::TenantNotFound, message())
                })?
            }
        };
        Ok(Self { owner })
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
