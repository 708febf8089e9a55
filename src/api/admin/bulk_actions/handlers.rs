//! The bulk actions: who calls, which rows, with what.

use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::admin::webhooks::{OwnerFilter, WebhookFilter};
use crate::admin::{AdminError, BudgetFilter, BulkRequest, Request, TenantFilter};
use crate::api::admin::bulk_actions::{
    BudgetBulkActionRequest, TenantBulkActionRequest, WebhookBulkActionRequest,
};
use crate::api::admin::extract::{AdminJson, Because, Declined, KeyHeader, Named, Outcome};
use crate::api::admin::refusals::{Asked, error_of};
use crate::api::admin::tenants::Tenant;
use crate::api::admin::tenants::handlers;
use crate::api::admin::tenants::update as tenant_update;
use crate::api::admin::tenants::update::TenantUpdateRequest;
use crate::api::body::idempotency_key;
use crate::api::errors::ApiError;
use crate::api::extract::Answer;
use crate::api::state::AppState;
use crate::domain::amount::Amount;
use crate::domain::bulk::BulkFunding;
use crate::domain::ids::TenantId;
use crate::domain::payload_hash::PayloadHash;
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::search::Search;
use crate::domain::webhook::Owner;
use crate::store::admin::bulk::BulkAnswer;

/// `POST /v1/admin/tenants/bulk-action`
pub async fn tenants(
    State(state): State<AppState>,
    Because(cause): Because,
    headers: HeaderMap,
    body: AdminJson<TenantBulkActionRequest>,
) -> Result<Response, ApiError> {
    let sent = body.request;
    let key = idempotency_key(&headers, Some(&sent.idempotency_key))?;
    let filter = TenantFilter {
        status: sent.filter.status,
        parent_tenant_id: sent.filter.parent_tenant_id.clone(),
        search: sent.filter.search.as_deref().map(Search::new),
    };
    let payload_hash = PayloadHash::of_body(&body.sent);
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &payload_hash,
    };
    let asked = asked(&state, request, sent.expected_count, &sent.filter);
    let done = state.admin.bulk_tenants(&filter, sent.action, &asked).await;
    Ok(answered(&state, done, None))
}

/// `POST /v1/admin/webhooks/bulk-action`
pub async fn webhooks(
    State(state): State<AppState>,
    Because(cause): Because,
    headers: HeaderMap,
    body: AdminJson<WebhookBulkActionRequest>,
) -> Result<Response, ApiError> {
    let sent = body.request;
    let key = idempotency_key(&headers, Some(&sent.idempotency_key))?;
    let owner = OwnerFilter::named(sent.filter.tenant_id.as_deref());
    let about = owner.owner().and_then(Owner::tenant).cloned();
    let event_type = sent.filter.event_type.as_ref();
    let filter = WebhookFilter {
        owner,
        status: sent.filter.status,
        event_type: event_type.map(|name| name.as_str().to_owned()),
        search: sent.filter.search.as_deref().map(Search::new),
    };
    let payload_hash = PayloadHash::of_body(&body.sent);
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &payload_hash,
    };
    let asked = asked(&state, request, sent.expected_count, &sent.filter);
    let done = state.admin.bulk_webhooks(&filter, sent.action, &asked);
    Ok(answered(&state, done.await, about))
}

/// `POST /v1/admin/budgets/bulk-action`
pub async fn budgets(
    State(state): State<AppState>,
    Because(cause): Because,
    headers: HeaderMap,
    body: AdminJson<BudgetBulkActionRequest>,
) -> Result<Response, ApiError> {
    let sent = body.request;
    sent.check_units()?;
    let key = idempotency_key(&headers, Some(&sent.idempotency_key))?;
    let named = sent.filter.tenant_id.as_str();
    let Some(tenant) = TenantId::parse(named) else {
        let asked = Asked {
            tenant: named,
            ..Asked::default()
        };
        return Err(error_of(AdminRefusal::TenantNotFound.into(), &asked));
    };
    let funding = BulkFunding {
        tenant: tenant.clone(),
        operation: sent.action,
        amount: sent.amount,
        spent: sent.spent.map(Amount::value),
        reason: sent.reason.filter(|reason| !reason.is_empty()),
    };
    let payload_hash = PayloadHash::of_body(&body.sent);
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &payload_hash,
    };
    let asked = asked(&state, request, sent.expected_count, &sent.filter);
    let filter = BudgetFilter::from(&sent.filter);
    let done = state.admin.bulk_budgets(&filter, &funding, &asked).await;
    Ok(answered(&state, done, Some(tenant)))
}

/// The tenant whose id is the literal of a bulk action's path.
fn named() -> Named {
    Named("bulk-action".to_owned())
}

/// `GET /v1/admin/tenants/bulk-action`: the tenant of that id.
pub async fn get_tenant(state: State<AppState>) -> Outcome<Tenant> {
    handlers::get_tenant(state, named()).await
}

/// `PATCH /v1/admin/tenants/bulk-action`: the tenant of that id.
pub async fn update_tenant(
    state: State<AppState>,
    because: Because,
    key: KeyHeader,
    body: AdminJson<TenantUpdateRequest>,
) -> Result<Response, Declined> {
    tenant_update::update_tenant(state, because, key, named(), body).await
}

fn asked<'a>(
    state: &AppState,
    request: Request<'a>,
    expected_count: Option<i64>,
    filter: &impl Serialize,
) -> BulkRequest<'a> {
    BulkRequest {
        request,
        expected_count,
        filter: serde_json::to_string(filter).unwrap_or_default(),
        gone_row: state.access.dialect().words().gone_row,
    }
}

/// The stored answer, byte for byte, or the refusal with the tenant that the request was about.
fn answered(
    state: &AppState,
    done: Result<BulkAnswer, AdminError>,
    tenant: Option<TenantId>,
) -> Response {
    let asked = Asked {
        tenant: tenant.as_ref().map_or("", TenantId::as_str),
        ..Asked::default()
    };
    let shown = done
        .map_err(|error| error_of(error, &asked))
        .and_then(|done| {
            let body = RawValue::from_string(done.body).map_err(ApiError::internal)?;
            Ok((done.in_progress, Answer(StatusCode::OK, body)))
        });
    match shown {
        Ok((false, answer)) => answer.into_response(),
        Ok((true, answer)) => {
            let cascade = state.access.dialect().header_names().cascade.clone();
            let in_progress = [
                (cascade, HeaderValue::from_static("in_progress")),
                (header::RETRY_AFTER, HeaderValue::from_static("1")),
            ];
            (in_progress, answer).into_response()
        }
        Err(error) => Declined { error, tenant }.into_response(),
    }
}
