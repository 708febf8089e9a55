//! The operations of the admin plane: who calls, about what, with what.

use axum::extract::State;
use axum::http::StatusCode;

use crate::admin::Request;
use crate::api::admin::extract::{AdminJson, Because, Declined, KeyHeader, Named, Outcome};
use crate::api::admin::refusals::{Asked, error_of};
use crate::api::admin::shown;
use crate::api::admin::tenants::{Tenant, TenantCreateRequest, TenantListResponse, Tenants};
use crate::api::errors::ApiError;
use crate::api::extract::{Answer, RawQuery};
use crate::api::list::ListRequest;
use crate::api::refusals::store_error;
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;
use crate::domain::payload_hash::PayloadHash;
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::tenant::record::NewTenant;

/// `POST /v1/admin/tenants`
pub async fn create_tenant(
    State(state): State<AppState>,
    Because(cause): Because,
    KeyHeader(key): KeyHeader,
    body: AdminJson<TenantCreateRequest>,
) -> Outcome<Tenant> {
    let sent = body.request;
    let new = NewTenant {
        tenant_id: sent.tenant_id,
        name: sent.name,
        parent_tenant_id: sent.parent_tenant_id,
        default_commit_overage_policy: sent.default_commit_overage_policy,
        default_reservation_ttl_ms: sent.default_reservation_ttl_ms,
        max_reservation_ttl_ms: sent.max_reservation_ttl_ms,
        max_reservation_extensions: sent.max_reservation_extensions,
        reservation_expiry_policy: sent.reservation_expiry_policy,
        metadata: sent.metadata,
    };
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &PayloadHash::of_body(&body.sent),
    };
    let created = state.admin.create_tenant(&new, &request).await;
    let asked = Asked {
        tenant: new.tenant_id.as_str(),
        ..Asked::default()
    };
    let (is_new, tenant) = created.map_err(|error| Declined {
        error: error_of(error, &asked),
        tenant: Some(new.tenant_id.clone()),
    })?;
    let status = if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok(Answer(status, shown::tenant(tenant)))
}

/// `GET /v1/admin/tenants/{tenant_id}`
pub async fn get_tenant(State(state): State<AppState>, Named(id): Named) -> Outcome<Tenant> {
    let asked = Asked {
        tenant: &id,
        ..Asked::default()
    };
    let tenant = TenantId::parse(&id);
    let found = match &tenant {
        Some(tenant) => state.admin.get_tenant(tenant).await,
        None => Err(AdminRefusal::TenantNotFound.into()),
    };
    let found = found.map_err(|error| Declined {
        error: error_of(error, &asked),
        tenant,
    })?;
    Ok(Answer(StatusCode::OK, shown::tenant(found)))
}

/// `GET /v1/admin/tenants`
pub async fn list_tenants(
    State(state): State<AppState>,
    RawQuery(query): RawQuery,
) -> Result<Answer<TenantListResponse>, ApiError> {
    let list = ListRequest::<Tenants>::parse(&query)?;
    let secret = state.store.secret().await.map_err(store_error)?;
    let page = state.admin.list_tenants(&list.query(secret)?).await;
    let page = page.map_err(|error| error_of(error, &Asked::default()))?;
    let next = list.next_cursor(&page, secret);
    let tenants = page.rows.into_iter().map(shown::tenant).collect();
    Ok(Answer(
        StatusCode::OK,
        TenantListResponse::new(tenants, next),
    ))
}

/// The tenant that a request acts upon: the key's, or the one that the admin names.
pub(in crate::api::admin) fn owner(caller: &Caller, named: Option<&str>) -> Option<TenantId> {
    match caller {
        Caller::Tenant(caller) => Some(caller.tenant.clone()),
        Caller::Admin(_) => named.and_then(TenantId::parse),
    }
}

/// The same as a text, perhaps no id; empty where the admin names none.
pub(in crate::api::admin) fn owner_as_sent<'a>(
    caller: &'a Caller,
    named: Option<&'a str>,
) -> &'a str {
    match caller {
        Caller::Tenant(caller) => caller.tenant.as_str(),
        Caller::Admin(_) => named.unwrap_or_default(),
    }
}

/// The answer, or the refusal with the tenant that the request was about.
pub(in crate::api::admin) fn answered<T>(
    status: StatusCode,
    shown: Result<T, ApiError>,
    tenant: Option<TenantId>,
) -> Outcome<T> {
    shown
        .map(|shown| Answer(status, shown))
        .map_err(|error| Declined { error, tenant })
}
