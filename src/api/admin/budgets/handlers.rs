//! The operations on budgets: who calls, about what, with what.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};

use super::list::{BudgetListResponse, Budgets};
use super::{
    BudgetCreateRequest, BudgetFundingRequest, BudgetFundingResponse, BudgetLedger, BudgetTarget,
};
use crate::admin::{Funding, NewBudget, Request};
use crate::api::admin::extract::{AdminJson, Because, KeyHeader, Outcome};
use crate::api::admin::refusals::{Asked, error_of};
use crate::api::admin::shown;
use crate::api::admin::tenants::handlers::{answered, owner, owner_as_sent};
use crate::api::body::idempotency_key;
use crate::api::errors::ApiError;
use crate::api::extract::{ByEither, RawQuery};
use crate::api::list::ListRequest;
use crate::api::refusals::store_error;
use crate::api::state::AppState;
use crate::domain::amount::Amount;
use crate::domain::ids::TenantId;
use crate::domain::payload_hash::PayloadHash;
use crate::domain::scope::Level;

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

/// `GET /v1/admin/budgets`
pub async fn list_budgets(
    State(state): State<AppState>,
    ByEither(caller): ByEither,
    RawQuery(query): RawQuery,
) -> Result<Outcome<BudgetListResponse>, ApiError> {
    let mut list = ListRequest::<Budgets>::parse(&query)?;
    let named = list.filter.tenant_id.clone();
    list.bind("tenant", owner_as_sent(&caller, named.as_deref()));
    let secret = state.store.secret().await.map_err(store_error)?;
    let page = state
        .admin
        .list_budgets(&caller, &list.query(secret)?)
        .await;
    let shown = page
        .map_err(|error| error_of(error, &Asked::default()))
        .and_then(|page| {
            let next = list.next_cursor(&page, secret);
            let ledgers: Result<Vec<_>, _> = page.rows.into_iter().map(shown::ledger).collect();
            Ok(BudgetListResponse::new(ledgers?, next))
        });
    Ok(answered(
        StatusCode::OK,
        shown,
        owner(&caller, named.as_deref()),
    ))
}
