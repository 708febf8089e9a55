//! The operations of the admin plane: who calls, about what, with what.

use axum::extract::State;
use axum::http::StatusCode;

use crate::admin::{Request, TenantPlace, TenantQuery, TenantSort};
use crate::api::admin::extract::{AdminJson, Because, Declined, KeyHeader, Named, Outcome};
use crate::api::admin::refusals::{Asked, error_of};
use crate::api::admin::shown;
use crate::api::admin::tenants::{
    Tenant, TenantCreateRequest, TenantListQuery, TenantListResponse,
};
use crate::api::errors::ApiError;
use crate::api::extract::{Answer, RawQuery};
use crate::api::refusals::store_error;
use crate::api::sort::{Last, Sort, SortKey};
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
    let query = TenantListQuery::parse(&query)?;
    let secret = state.store.secret().await.map_err(store_error)?;
    let start = query.start(secret)?;
    let unknown = || ApiError::internal("a sort that the lists do not know");
    let asked = TenantQuery {
        status: query.status,
        parent_tenant_id: query.parent_tenant_id.clone(),
        search: query.search.clone(),
        sort: TenantSort::parse(start.sort.by.word()).ok_or_else(unknown)?,
        descending: start.sort.descending,
        any_order: query.leaves_order_open(),
        after: start.after.map(|last| TenantPlace {
            value: last.value,
            id: last.id,
        }),
        limit: query.limit,
    };
    let page = state.admin.list_tenants(&asked).await;
    let page = page.map_err(|error| error_of(error, &Asked::default()))?;
    let sort = Sort {
        by: SortKey::read(page.sort.as_str()).ok_or_else(unknown)?,
        descending: start.sort.descending,
    };
    let next = page.next.map(|place| {
        let last = Last {
            value: place.value,
            id: place.id,
        };
        query.next_cursor(sort, last, secret)
    });
    let tenants = page.tenants.into_iter().map(shown::tenant).collect();
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
