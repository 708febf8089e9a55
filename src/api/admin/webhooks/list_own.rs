//! Lists a tenant's webhook subscriptions.

use super::WebhookListResponse;
use super::list::ABOUT_STATUS;
use crate::admin::webhooks::TenantWebhookFilter;
use crate::api::errors::ApiError;
use crate::api::list::{List, ListCall, Parameters, ReturnsPage, list};
use crate::api::operation::Declaration;
use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;
use crate::listing::OneOrder;

pub(in crate::api) const DECLARATION: Declaration = list::<TenantWebhooks>(
    "Lists a tenant's webhook subscriptions",
    "A page of subscriptions.",
);

struct TenantWebhooks;

impl List for TenantWebhooks {
    const NAME: &'static str = "tenant webhooks";
    type Filter = TenantWebhookFilter;
    type Sort = OneOrder;
    type Response = WebhookListResponse;

    fn filter(parameters: &mut Parameters<'_>) -> Result<TenantWebhookFilter, ApiError> {
        let about = "The tenant. Required with the admin key; must be absent with an API key.";
        Ok(TenantWebhookFilter {
            tenant: parameters.unbound_text("tenant", about)?,
            status: parameters.word("status", ABOUT_STATUS)?,
        })
    }

    async fn page(call: &mut ListCall<Self>) -> ReturnsPage<Self> {
        // A tenant that cannot exist has nothing.
        let Some(tenant) = TenantId::parse(listed_tenant(&call.list.filter, &call.caller)?) else {
            return Ok(call.list.empty_page());
        };
        call.list.bind("tenant", &tenant);
        let (webhooks, query) = (&call.state.webhooks, call.query().await?);
        let page = webhooks.list_of_tenant(&call.caller, &tenant, &query);
        Ok(page.await?)
    }
}

/// Whose subscriptions are listed. The admin names a tenant; a tenant's key names its own by itself.
///
/// # Errors
/// 400 when the parameter is missing, or must not be there.
fn listed_tenant<'a>(
    filter: &'a TenantWebhookFilter,
    caller: &'a Caller,
) -> Result<&'a str, ApiError> {
    match (caller, &filter.tenant) {
        (Caller::Admin(_), Some(tenant)) => Ok(tenant),
        (Caller::Admin(_), None) => Err(ApiError::invalid("Missing required parameter: tenant")),
        (Caller::Tenant(caller), None) => Ok(caller.tenant.as_str()),
        (Caller::Tenant(_), Some(_)) => Err(ApiError::invalid(
            "Invalid value for parameter 'tenant': it must be absent with an API key, which names its tenant itself",
        )),
    }
}
