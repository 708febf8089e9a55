//! The operations of the admin plane: who calls, about what, with what.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};

use super::budgets::{
    BudgetCreateRequest, BudgetFundingRequest, BudgetFundingResponse, BudgetLedger, BudgetTarget,
};
use super::extract::{AdminJson, Because, Declined, KeyHeader, Named, Outcome};
use super::refusals::{Asked, error_of};
use super::shown;
use super::tenants::{Tenant, TenantCreateRequest, TenantListQuery, TenantListResponse};
use crate::admin::{Funding, NewBudget, Request, TenantPlace, TenantQuery, TenantSort};
use crate::api::body::idempotency_key;
use crate::api::errors::ApiError;
use crate::api::extract::{Answer, ByEither, RawQuery};
use crate::api::refusals::store_error;
use crate::api::sort::{Last, Sort, SortKey};
use crate::api::state::AppState;
use crate::domain::admin_refusal::AdminRefusal;
use crate::domain::amount::Amount;
use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;
use crate::domain::payload_hash::PayloadHash;
use crate::domain::scope::Level;
use crate::domain::tenant_record::NewTenant;

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

/// `POST /v1/admin/budgets`
pub async fn create_budget(
    State(state): State<AppState>,
    ByEither(caller): ByEither,
    Because(cause): Because,
    KeyHeader(key): KeyHeader,
    body: AdminJson<BudgetCreateRequest>,
) -> Result<Outcome<BudgetLedger>, ApiError> {
    let sent = body.request;
    sent.check_units()?;
    let scope = sent.budget_scope()?;
    let tenant = owner(&caller, sent.tenant_id.as_deref());
    let new = NewBudget {
        tenant_id: sent.tenant_id,
        scope,
        allocated: sent.allocated,
        overdraft_limit: sent.overdraft_limit.map_or(0, Amount::value),
        commit_overage_policy: sent.commit_overage_policy,
        rollover_policy: sent.rollover_policy,
        period_start: sent.period_start,
        period_end: sent.period_end,
        metadata: sent.metadata,
    };
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &PayloadHash::of_body(&body.sent),
    };
    let created = state.admin.create_budget(&caller, &new, &request).await;
    let asked = Asked {
        tenant: tenant.as_ref().map_or(
            new.tenant_id.as_deref().unwrap_or_default(),
            TenantId::as_str,
        ),
        scope: new.scope.path().as_str(),
        unit: Some(new.allocated.unit()),
        ..Asked::default()
    };
    let shown = created
        .map_err(|error| error_of(error, &asked))
        .and_then(shown::ledger);
    Ok(answered(StatusCode::CREATED, shown, tenant))
}

/// `POST /v1/admin/budgets/fund`
pub async fn fund_budget(
    State(state): State<AppState>,
    ByEither(caller): ByEither,
    Because(cause): Because,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
    body: AdminJson<BudgetFundingRequest>,
) -> Result<Outcome<BudgetFundingResponse>, ApiError> {
    let target = BudgetTarget::parse(&query)?;
    let sent = body.request;
    let key = idempotency_key(&headers, sent.idempotency_key.as_ref())?;
    let tenant = owner(&caller, target.tenant_id.as_deref());
    let scope = target.scope.path().clone();
    let asked = Asked {
        tenant: tenant.as_ref().map_or(
            target.tenant_id.as_deref().unwrap_or_default(),
            TenantId::as_str,
        ),
        scope: scope.as_str(),
        unit: Some(target.unit),
        amount: Some(sent.amount),
        ..Asked::default()
    };
    if let Err(mismatch) = sent.check_units(&target) {
        // A key that is restricted to other scopes learns that first.
        let access = state
            .admin
            .check_access(&caller, "budgets:write", Some(&target.scope))
            .await;
        let error = access
            .err()
            .map_or(mismatch, |error| error_of(error, &asked));
        return Ok(answered(StatusCode::OK, Err(error), tenant));
    }
    let selected = [
        ("tenant_id", asked.tenant),
        ("scope", asked.scope),
        ("unit", target.unit.as_str()),
    ];
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &PayloadHash::of_body_and_target(&body.sent, &selected),
    };
    let funding = Funding {
        tenant_id: target.tenant_id.clone(),
        scope: target.scope,
        operation: sent.operation,
        amount: sent.amount,
        spent: sent.spent.map(Amount::value),
        reason: sent.reason,
    };
    let funded = state.admin.fund_budget(&caller, &funding, &request).await;
    let shown = funded
        .map_err(|error| error_of(error, &asked))
        .and_then(|funded| shown::funded(sent.operation, target.unit, &funded));
    Ok(answered(StatusCode::OK, shown, tenant))
}

/// `GET /v1/admin/budgets/lookup`
pub async fn lookup_budget(
    State(state): State<AppState>,
    ByEither(caller): ByEither,
    RawQuery(query): RawQuery,
) -> Result<Outcome<BudgetLedger>, ApiError> {
    let target = BudgetTarget::parse(&query)?;
    let found = state
        .admin
        .lookup_budget(&caller, &target.scope, target.unit)
        .await;
    let asked = Asked {
        scope: target.scope.path().as_str(),
        unit: Some(target.unit),
        ..Asked::default()
    };
    let shown = found
        .map_err(|error| error_of(error, &asked))
        .and_then(shown::ledger);
    let tenant = owner(&caller, target.scope.path().value(Level::Tenant));
    Ok(answered(StatusCode::OK, shown, tenant))
}

/// The tenant that a request acts upon: the key's, or the one that the admin names.
pub(super) fn owner(caller: &Caller, named: Option<&str>) -> Option<TenantId> {
    match caller {
        Caller::Tenant(caller) => Some(caller.tenant.clone()),
        Caller::Admin(_) => named.and_then(TenantId::parse),
    }
}

/// The answer, or the refusal with the tenant that the request was about.
pub(super) fn answered<T>(
    status: StatusCode,
    shown: Result<T, ApiError>,
    tenant: Option<TenantId>,
) -> Outcome<T> {
    shown
        .map(|shown| Answer(status, shown))
        .map_err(|error| Declined { error, tenant })
}
