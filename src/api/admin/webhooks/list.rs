//! The lists of webhook subscriptions and of their deliveries.

use serde_json::json;

use crate::admin::webhooks::{
    DeliveryFilter, OwnerFilter, TenantWebhookFilter, WebhookFilter, WebhookSort,
};
use crate::api::errors::ApiError;
use crate::api::list::{List, ListCall, Parameters, ReturnsPage, list, list_response};
use crate::api::operation::Declaration;
use crate::domain::caller::Caller;
use crate::domain::event::types::EventType;
use crate::domain::ids::TenantId;
use crate::domain::webhook::{Delivery, Owner, Subscription};
use crate::listing::OneOrder;

list_response! {
    /// A page of subscriptions.
    WebhookListResponse: Open {
        /// The subscriptions.
        subscriptions: Subscription,
        has_more {}
    }
}

list_response! {
    /// A page of deliveries.
    WebhookDeliveryListResponse: Open {
        /// The deliveries, newest first.
        deliveries: Delivery,
        has_more {}
    }
}

pub(in crate::api) const ALL: Declaration =
    list::<AllWebhooks>("Lists webhook subscriptions", "A page of subscriptions.");

/// Describes the filter by status.
const ABOUT_STATUS: &str = "The status of the subscriptions.";

struct AllWebhooks;

impl List for AllWebhooks {
    const NAME: &'static str = "webhooks";
    type Filter = WebhookFilter;
    type Sort = WebhookSort;
    type Response = WebhookListResponse;

    fn filter(parameters: &mut Parameters<'_>) -> Result<WebhookFilter, ApiError> {
        let about = "Owner of the subscriptions: a tenant, or `__system__` for the operator.";
        let tenant = parameters.text("tenant_id", about)?;
        let status = parameters.word("status", ABOUT_STATUS)?;
        // The set of types is open: one that is not known is in no list.
        let schema = || json!({"type": "string", "enum": EventType::WORDS});
        let about = "The event type that subscriptions select by name.";
        let any = |text: &str| Some(text.to_owned());
        let event_type = parameters.parsed("event_type", about, schema, (any, ""))?;
        let about = "Text that id or address must contain, in any case.";
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

    async fn page(call: &mut ListCall<Self>) -> ReturnsPage<Self> {
        Ok(call.state.webhooks.list(&call.query().await?).await?)
    }
}

pub(in crate::api) const OWN: Declaration = list::<TenantWebhooks>(
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

pub(in crate::api) const DELIVERIES: Declaration = list::<Deliveries>(
    "Lists the deliveries to a webhook subscription, newest first",
    "A page of deliveries.",
)
.refuses(&[404]);

struct Deliveries;

impl List for Deliveries {
    const NAME: &'static str = "deliveries";
    type Filter = DeliveryFilter;
    type Sort = OneOrder;
    type Response = WebhookDeliveryListResponse;

    fn filter(parameters: &mut Parameters<'_>) -> Result<DeliveryFilter, ApiError> {
        let about = [
            "Earliest time of queueing, inclusive.",
            "Latest time of queueing, inclusive.",
        ];
        Ok(DeliveryFilter {
            status: parameters.word("status", "The status of the deliveries.")?,
            window: parameters.window(["from", "to"], about)?,
        })
    }

    async fn page(call: &mut ListCall<Self>) -> ReturnsPage<Self> {
        let id = &call.path_id;
        call.list.bind("subscription_id", id);
        let (webhooks, query) = (&call.state.webhooks, call.query().await?);
        Ok(webhooks.deliveries(&call.caller, id, &query).await?)
    }
}
