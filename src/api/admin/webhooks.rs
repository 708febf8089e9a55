//! The HTTP operations on webhook subscriptions.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::admin::webhooks::{
    DeliveryFilter, OwnerFilter, ReplayResponse, WebhookCreateResponse, WebhookFilter,
    WebhookSecurityConfig, WebhookSort, WebhookTestResponse,
};
use crate::api::admin::extract::{AdminJson, Change, ChangeBody, ChangeTarget, NoBody, PathId};
use crate::api::errors::{ApiError, Code};
use crate::api::list::{List, ListCall, Parameters, ReturnsPage, list, list_response};
use crate::api::operation::{Declaration, Operation, declare, parameters};
use crate::api::query::Query;
use crate::api::response::{CheckedJson, CheckedSecret, NO_STORE, Returns, note_checked};
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;
use crate::domain::event::types::EventType;
use crate::domain::ids::TenantId;
use crate::domain::printable::printable;
use crate::domain::tenant::SYSTEM;
use crate::domain::webhook::{
    Delivery, Owner, Subscription, WebhookCreateRequest, WebhookReplay, WebhookUpdateRequest,
};
use crate::listing::OneOrder;

pub(in crate::api) const CREATE: Declaration = declare!(
    create_webhook,
    "Creates a webhook subscription; the response is the only one that shows its signing secret"
)
.query(|| {
    let owner = "Owner. Absent: the operator, for events of all tenants.";
    vec![parameters::query("tenant_id", owner, parameters::text())]
})
.takes_change::<WebhookCreateRequest>()
.returns::<WebhookCreateResponse>(201, "The new subscription.")
.refuses(&[404, 409]);

pub(in crate::api) const CREATE_OWN: Declaration = declare!(
    create_webhook,
    "Creates a webhook subscription of the API key's tenant; the response is the only one that shows its secret"
)
.takes_change::<WebhookCreateRequest>()
.returns::<WebhookCreateResponse>(201, "The new subscription.")
.refuses(&[409]);

impl ChangeBody for WebhookCreateRequest {
    const SHOWS_SECRET: bool = true;
}

async fn create_webhook(
    change: Change<WebhookCreateRequest, Owner>,
) -> Result<CheckedSecret<WebhookCreateResponse>, ApiError> {
    let (owner, webhooks) = (&change.target, &change.state.webhooks);
    let (operation, request) = (change.operation.name, change.request());
    let created = webhooks.create(&change.caller, owner, &change.body, operation, &request);
    Ok((NO_STORE, CheckedJson::created(created.await?)))
}

pub(in crate::api) const GET: Declaration = declare!(get_webhook, "Gets a webhook subscription")
    .returns::<Subscription>(200, "The subscription.")
    .refuses(&[404]);

async fn get_webhook(
    State(state): State<AppState>,
    caller: Caller,
    PathId(id): PathId,
) -> Returns<Subscription> {
    let found = state.webhooks.get(&caller, &id).await?;
    Ok(CheckedJson::ok(found))
}

pub(in crate::api) const UPDATE: Declaration =
    declare!(update_webhook, "Changes a webhook subscription")
        .takes_change::<WebhookUpdateRequest>()
        .returns::<Subscription>(200, "The subscription after the change.")
        .refuses(&[404, 409]);

impl ChangeBody for WebhookUpdateRequest {}

async fn update_webhook(change: Change<WebhookUpdateRequest, PathId>) -> Returns<Subscription> {
    let (PathId(id), request) = (&change.target, change.request());
    let (webhooks, operation) = (&change.state.webhooks, change.operation.name);
    let updated = webhooks.update(&change.caller, id, &change.body, operation, &request);
    Ok(CheckedJson::ok(updated.await?))
}

pub(in crate::api) const DELETE: Declaration = declare!(
    delete_webhook,
    "Deletes a webhook subscription with its secrets"
)
.idempotent()
.returns_nothing("The subscription is deleted.")
.refuses(&[404, 409]);

async fn delete_webhook(change: Change<NoBody, PathId>) -> Result<Response, ApiError> {
    let (PathId(id), request) = (&change.target, change.request());
    let (webhooks, operation) = (&change.state.webhooks, change.operation.name);
    let deleted = webhooks.delete(&change.caller, id, operation, &request);
    deleted.await?;
    note_checked();
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(in crate::api) const TEST: Declaration = declare!(
    test_webhook,
    "Sends a signed test event to the receiver now, and reports the outcome"
)
.returns::<WebhookTestResponse>(200, "The outcome.")
.refuses(&[404, 409]);

async fn test_webhook(
    State(state): State<AppState>,
    operation: &'static Operation,
    caller: Caller,
    cause: Cause,
    PathId(id): PathId,
) -> Returns<WebhookTestResponse> {
    let tested = state.webhooks.test(&caller, &id, operation.name, &cause);
    Ok(CheckedJson::ok(tested.await?))
}

pub(in crate::api) const REPLAY: Declaration =
    declare!(replay_events, "Queues past events to be delivered again")
        .takes::<WebhookReplay>()
        .returns::<ReplayResponse>(202, "The queued deliveries.")
        .refuses(&[404, 409]);

async fn replay_events(
    State(state): State<AppState>,
    operation: &'static Operation,
    caller: Caller,
    cause: Cause,
    PathId(id): PathId,
    AdminJson(replay): AdminJson<WebhookReplay>,
) -> Returns<ReplayResponse> {
    let webhooks = &state.webhooks;
    let queued = webhooks.replay(&caller, &id, &replay, operation.name, &cause);
    Ok(CheckedJson(StatusCode::ACCEPTED, queued.await?))
}

pub(in crate::api) const GET_SECURITY: Declaration =
    declare!(get_security, "Gets the rules for addresses of webhooks")
        .returns::<WebhookSecurityConfig>(200, "The rules.");

async fn get_security(State(state): State<AppState>) -> Returns<WebhookSecurityConfig> {
    Ok(CheckedJson::ok(state.webhooks.security().await?))
}

pub(in crate::api) const UPDATE_SECURITY: Declaration = declare!(
    update_security,
    "Replaces the rules for addresses of webhooks; absent members get their defaults"
)
.takes::<WebhookSecurityConfig>()
.returns::<WebhookSecurityConfig>(200, "The rules.");

async fn update_security(
    State(state): State<AppState>,
    cause: Cause,
    AdminJson(settings): AdminJson<WebhookSecurityConfig>,
) -> Returns<WebhookSecurityConfig> {
    state.webhooks.put_security(&settings, &cause).await?;
    Ok(CheckedJson::ok(settings))
}

/// The owner of the subscription to create: the API key's tenant, or whom the query names.
impl ChangeTarget for Owner {
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

pub(in crate::api) const LIST: Declaration =
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

pub(in crate::api) const LIST_OWN: Declaration = list::<TenantWebhooks>(
    "Lists a tenant's webhook subscriptions",
    "A page of subscriptions.",
);

struct TenantWebhooks;

impl List for TenantWebhooks {
    const NAME: &'static str = "tenant webhooks";
    type Filter = WebhookFilter;
    type Sort = OneOrder;
    type Response = WebhookListResponse;

    fn filter(parameters: &mut Parameters<'_>) -> Result<WebhookFilter, ApiError> {
        let about = "The tenant. Required with the admin key; must be absent with an API key.";
        let tenant = parameters.unbound_text("tenant", about)?;
        Ok(WebhookFilter {
            owner: OwnerFilter::named(tenant.as_deref()),
            status: parameters.word("status", ABOUT_STATUS)?,
            event_type: None,
            search: None,
        })
    }

    async fn page(call: &mut ListCall<Self>) -> ReturnsPage<Self> {
        let tenant = match (&call.caller, &call.list.filter.owner) {
            (Caller::Admin(_), OwnerFilter::All) => {
                return Err(ApiError::invalid("Missing required parameter: tenant"));
            }
            (Caller::Admin(_), OwnerFilter::Of(Owner::Tenant(tenant))) => tenant,
            // A tenant that cannot exist has nothing.
            (Caller::Admin(_), _) => return Ok(call.list.empty_page()),
            (Caller::Tenant(caller), OwnerFilter::All) => &caller.tenant,
            (Caller::Tenant(_), _) => {
                return Err(ApiError::invalid(
                    "Invalid value for parameter 'tenant': it must be absent with an API key, which names its tenant itself",
                ));
            }
        };
        let tenant = tenant.clone();
        call.list.bind("tenant", &tenant);
        call.list.filter.owner = OwnerFilter::Of(Owner::Tenant(tenant));
        let (webhooks, query) = (&call.state.webhooks, call.query().await?);
        Ok(webhooks.list_of_tenant(&call.caller, &query).await?)
    }
}

pub(in crate::api) const LIST_DELIVERIES: Declaration = list::<Deliveries>(
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
