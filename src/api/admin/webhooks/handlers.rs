//! The operations on webhook subscriptions, on both planes: who calls, about what, with what.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::admin::Request;
use crate::admin::webhooks::{Replay, SecuritySettings, WebhookError};
use crate::api::admin::extract::{AdminJson, Because, Declined, KeyHeader, Named, Outcome};
use crate::api::admin::refusals::{Asked, error_of};
use crate::api::admin::webhooks::queries::{
    AllWebhooks, Deliveries, OwnerQuery, TenantWebhooks, listed_tenant,
};
use crate::api::admin::webhooks::requests::WebhookReplay;
use crate::api::admin::webhooks::security::WebhookSecurityConfig;
use crate::api::admin::webhooks::{
    ReplayResponse, WebhookCreateResponse, WebhookDeliveryListResponse, WebhookListResponse,
    WebhookSubscription, WebhookTestResponse,
};
use crate::api::errors::ApiError;
use crate::api::extract::{Answer, ByEither, Judged204, RawQuery};
use crate::api::list::ListRequest;
use crate::api::refusals::store_error;
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::cause::{Actor, Cause};
use crate::domain::ids::{IdempotencyKey, TenantId};
use crate::domain::json::Json;
use crate::domain::moment::Window;
use crate::domain::payload_hash::PayloadHash;
use crate::domain::refusal::BadCredential;
use crate::domain::webhook::{Owner, WebhookCreateRequest, WebhookUpdateRequest};

/// `POST /v1/admin/webhooks`
pub async fn create(
    State(state): State<AppState>,
    ByEither(caller): ByEither,
    Because(cause): Because,
    KeyHeader(key): KeyHeader,
    RawQuery(query): RawQuery,
    body: AdminJson<WebhookCreateRequest>,
) -> Result<Outcome<WebhookCreateResponse>, ApiError> {
    let owner = OwnerQuery::parse(&query)?.owner;
    let target = [("tenant_id", owner.as_str())];
    let payload = PayloadHash::of_body_and_target(&body.sent, &target);
    Ok(created(
        &state,
        &caller,
        &owner,
        body,
        (&cause, key.as_ref(), &payload),
    )
    .await)
}

/// `POST /v1/webhooks`
pub async fn create_own(
    State(state): State<AppState>,
    ByEither(caller): ByEither,
    Because(cause): Because,
    KeyHeader(key): KeyHeader,
    body: AdminJson<WebhookCreateRequest>,
) -> Result<Outcome<WebhookCreateResponse>, ApiError> {
    let Caller::Tenant(tenant) = &caller else {
        return Err(ApiError::unauthorized(BadCredential::NoKey));
    };
    let owner = Owner::Tenant(tenant.tenant.clone());
    let payload = PayloadHash::of_body(&body.sent);
    Ok(created(
        &state,
        &caller,
        &owner,
        body,
        (&cause, key.as_ref(), &payload),
    )
    .await)
}

async fn created(
    state: &AppState,
    caller: &Caller,
    owner: &Owner,
    body: AdminJson<WebhookCreateRequest>,
    (cause, key, payload): (&Cause, Option<&IdempotencyKey>, &PayloadHash),
) -> Outcome<WebhookCreateResponse> {
    let request = Request {
        cause,
        idempotency_key: key,
        payload_hash: payload,
    };
    let operation = named(cause, "createWebhookSubscription", "createTenantWebhook");
    let created = state
        .webhooks
        .create(caller, owner, &body.request, operation, &request)
        .await;
    let created = created.map_err(|error| declined(error, owner.as_str(), ""))?;
    let response = WebhookCreateResponse::new(created.subscription, &created.signing_secret);
    Ok(Answer(StatusCode::CREATED, response))
}

/// `GET /v1/admin/webhooks`
pub async fn list(
    State(state): State<AppState>,
    RawQuery(query): RawQuery,
) -> Result<Answer<WebhookListResponse>, ApiError> {
    let list = ListRequest::<AllWebhooks>::parse(&query)?;
    let secret = state.store.secret().await.map_err(store_error)?;
    let page = state.webhooks.list(&list.query(secret)?).await;
    let page = page.map_err(|error| error_of(error, &Asked::default()))?;
    let next = list.next_cursor(&page, secret);
    Ok(Answer(StatusCode::OK, listed(page.rows, next)))
}

/// `GET /v1/webhooks`
pub async fn list_own(
    State(state): State<AppState>,
    ByEither(caller): ByEither,
    RawQuery(query): RawQuery,
) -> Result<Outcome<WebhookListResponse>, ApiError> {
    let mut list = ListRequest::<TenantWebhooks>::parse(&query)?;
    // A tenant that cannot exist has nothing.
    let Some(tenant) = TenantId::parse(&listed_tenant(&list.filter, &caller)?) else {
        return Ok(Ok(Answer(StatusCode::OK, listed(Vec::new(), None))));
    };
    list.bind("tenant", &tenant);
    let secret = state.store.secret().await.map_err(store_error)?;
    let query = list.query(secret)?;
    let page = state
        .webhooks
        .list_of_tenant(&caller, &tenant, &query)
        .await;
    Ok(page
        .map_err(|error| declined(error, tenant.as_str(), ""))
        .map(|page| {
            let next = list.next_cursor(&page, secret);
            Answer(StatusCode::OK, listed(page.rows, next))
        }))
}

/// `GET` of one.
pub async fn get(
    State(state): State<AppState>,
    ByEither(caller): ByEither,
    Named(id): Named,
) -> Outcome<WebhookSubscription> {
    let found = state.webhooks.get(&caller, &id).await;
    found
        .map(|subscription| Answer(StatusCode::OK, subscription.into()))
        .map_err(|error| declined(error, "", &id))
}

/// `PATCH` of one.
pub async fn update(
    State(state): State<AppState>,
    ByEither(caller): ByEither,
    Because(cause): Because,
    KeyHeader(key): KeyHeader,
    Named(id): Named,
    body: AdminJson<WebhookUpdateRequest>,
) -> Outcome<WebhookSubscription> {
    // `null` is not as good as absent here, so the body is hashed as it is.
    let sent = body.sent.canonical();
    let target = [("subscription_id", id.as_str()), ("patch", sent.as_str())];
    let payload = PayloadHash::of_body_and_target(&Json::Object(Vec::new()), &target);
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &payload,
    };
    let operation = named(&cause, "updateWebhookSubscription", "updateTenantWebhook");
    let updated = state
        .webhooks
        .update(&caller, &id, &body.request, operation, &request)
        .await;
    updated
        .map(|subscription| Answer(StatusCode::OK, subscription.into()))
        .map_err(|error| declined(error, "", &id))
}

/// `DELETE` of one.
pub async fn delete(
    State(state): State<AppState>,
    ByEither(caller): ByEither,
    Because(cause): Because,
    KeyHeader(key): KeyHeader,
    Named(id): Named,
) -> Result<Response, Declined> {
    let target = [("subscription_id", id.as_str())];
    let payload = PayloadHash::of_body_and_target(&Json::Object(Vec::new()), &target);
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &payload,
    };
    let operation = named(&cause, "deleteWebhookSubscription", "deleteTenantWebhook");
    let deleted = state
        .webhooks
        .delete(&caller, &id, operation, &request)
        .await;
    deleted
        .map(|()| Judged204.into_response())
        .map_err(|error| declined(error, "", &id))
}

/// `POST …/test`
pub async fn test(
    State(state): State<AppState>,
    ByEither(caller): ByEither,
    Because(cause): Because,
    Named(id): Named,
) -> Outcome<WebhookTestResponse> {
    let request = Request {
        cause: &cause,
        idempotency_key: None,
        payload_hash: &PayloadHash::of_body(&Json::Object(Vec::new())),
    };
    let operation = named(&cause, "testWebhookSubscription", "testTenantWebhook");
    let tested = state.webhooks.test(&caller, &id, operation, &request).await;
    let outcome = tested.map_err(|error| declined(error, "", &id))?;
    let millis = |took: std::time::Duration| i64::try_from(took.as_millis()).unwrap_or(i64::MAX);
    let response = WebhookTestResponse {
        success: outcome.success,
        response_status: outcome.response_status.map(i64::from),
        response_time_ms: outcome.response_time.map(millis),
        error_message: outcome.error_message,
        event_id: Some(outcome.event_id),
    };
    Ok(Answer(StatusCode::OK, response))
}

/// `GET …/deliveries`
pub async fn deliveries(
    State(state): State<AppState>,
    ByEither(caller): ByEither,
    Named(id): Named,
    RawQuery(query): RawQuery,
) -> Result<Outcome<WebhookDeliveryListResponse>, ApiError> {
    let mut list = ListRequest::<Deliveries>::parse(&query)?;
    list.bind("subscription_id", &id);
    let secret = state.store.secret().await.map_err(store_error)?;
    let query = list.query(secret)?;
    let page = state.webhooks.deliveries(&caller, &id, &query).await;
    Ok(page.map_err(|error| declined(error, "", &id)).map(|page| {
        let next = list.next_cursor(&page, secret);
        let deliveries = page.rows.into_iter().map(Into::into).collect();
        Answer(
            StatusCode::OK,
            WebhookDeliveryListResponse::new(deliveries, next),
        )
    }))
}

/// `POST /v1/admin/webhooks/{subscription_id}/replay`
pub async fn replay(
    State(state): State<AppState>,
    ByEither(caller): ByEither,
    Because(cause): Because,
    Named(id): Named,
    body: AdminJson<WebhookReplay>,
) -> Outcome<ReplayResponse> {
    let sent = body.request;
    let replay = Replay {
        window: Window {
            from_ms: sent.from.map(|from| from.as_ms()),
            to_ms: sent.to.map(|to| to.as_ms()),
        },
        event_types: sent.event_types,
        max_events: usize::try_from(sent.max_events).unwrap_or(1),
    };
    let request = Request {
        cause: &cause,
        idempotency_key: None,
        payload_hash: &PayloadHash::of_body(&body.sent),
    };
    let queued = state.webhooks.replay(&caller, &id, &replay, &request).await;
    let queued = queued.map_err(|error| declined(error, "", &id))?;
    let events = i64::try_from(queued.events_queued).unwrap_or(i64::MAX);
    let response = ReplayResponse {
        replay_id: queued.replay_id.to_string(),
        events_queued: events,
        estimated_completion_seconds: if events == 0 { 0 } else { (events / 10).max(1) },
    };
    Ok(Answer(StatusCode::ACCEPTED, response))
}

/// `GET /v1/admin/config/webhook-security`
pub async fn get_security(
    State(state): State<AppState>,
) -> Result<Answer<WebhookSecurityConfig>, ApiError> {
    let settings = state.webhooks.security().await;
    let settings = settings.map_err(|error| error_of(error, &Asked::default()))?;
    Ok(Answer(StatusCode::OK, shown(settings)))
}

/// `PUT /v1/admin/config/webhook-security`
pub async fn put_security(
    State(state): State<AppState>,
    Because(cause): Because,
    body: AdminJson<WebhookSecurityConfig>,
) -> Result<Answer<WebhookSecurityConfig>, ApiError> {
    let config = body.request;
    let settings = SecuritySettings {
        blocked_cidr_ranges: config.blocked_cidr_ranges,
        allowed_url_patterns: config.allowed_url_patterns,
        allow_http: config.allow_http,
    };
    let request = Request {
        cause: &cause,
        idempotency_key: None,
        payload_hash: &PayloadHash::of_body(&body.sent),
    };
    let stored = state.webhooks.put_security(&settings, &request).await;
    stored.map_err(|error| error_of(error, &Asked::default()))?;
    Ok(Answer(StatusCode::OK, shown(settings)))
}

fn shown(settings: SecuritySettings) -> WebhookSecurityConfig {
    WebhookSecurityConfig {
        blocked_cidr_ranges: settings.blocked_cidr_ranges,
        allowed_url_patterns: settings.allowed_url_patterns,
        allow_http: settings.allow_http,
    }
}

fn listed(
    subscriptions: Vec<crate::domain::webhook::Subscription>,
    next_cursor: Option<String>,
) -> WebhookListResponse {
    let subscriptions = subscriptions.into_iter().map(Into::into).collect();
    WebhookListResponse::new(subscriptions, next_cursor)
}

/// The operation's name on the plane that was called: only operators' operations are the admin's own.
fn named(cause: &Cause, operators: &'static str, tenants: &'static str) -> &'static str {
    match cause.actor {
        Actor::Admin => operators,
        _ => tenants,
    }
}

fn declined(error: WebhookError, tenant: &str, webhook: &str) -> Declined {
    let owner = error.owner;
    let asked = Asked {
        tenant: owner.as_ref().map_or(tenant, TenantId::as_str),
        webhook,
        ..Asked::default()
    };
    Declined {
        error: error_of(error.error, &asked),
        tenant: owner,
    }
}
