//! Budgets: `PATCH /v1/admin/budgets`, `POST /v1/admin/budgets/freeze` and `…/unfreeze`.

use axum::extract::State;
use axum::http::StatusCode;

use crate::admin::{AdminError, BudgetUpdate, Request};
use crate::api::admin::budgets::{BudgetLedger, BudgetTarget, check_unit};
use crate::api::admin::extract::{
    AdminJson, Because, Declined, KeyHeader, OptionalAdminJson, Outcome,
};
use crate::api::admin::refusals::{Asked, error_of};
use crate::api::admin::shown;
use crate::api::errors::ApiError;
use crate::api::extract::{Answer, RawQuery};
use crate::api::state::AppState;
use crate::domain::amount::Amount;
use crate::domain::budget::ledger as budget_ledger;
use crate::domain::fields::{Patch, object};
use crate::domain::ids::TenantId;
use crate::domain::json::{FreeObject, Json};
use crate::domain::payload_hash::PayloadHash;
use crate::domain::policy::OveragePolicy;
use crate::domain::scope::Level;

object! {
    /// Changes the settings of a budget. What is absent stays.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct BudgetUpdateRequest: Read {
        /// How much debt is allowed.
        pub overdraft_limit: Option<Amount>,
        /// What a commit above its estimate does; `null`: as the tenant's settings say.
        pub commit_overage_policy: Patch<OveragePolicy>,
        /// Data that the operator chooses, replaced as a whole, not returned; `null` removes it.
        pub metadata: Patch<FreeObject>,
    }
}

object! {
    /// Freezes or unfreezes a budget. The whole body may be absent.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct BudgetStatusTransitionRequest: Read {
        /// Reason, for the record.
        pub reason: Option<String> { chars: ..=512 },
        /// Data that the operator chooses.
        pub metadata: Option<FreeObject>,
    }
}

/// `PATCH /v1/admin/budgets`
pub async fn update_budget(
    State(state): State<AppState>,
    Because(cause): Because,
    KeyHeader(key): KeyHeader,
    RawQuery(query): RawQuery,
    body: AdminJson<BudgetUpdateRequest>,
) -> Result<Outcome<BudgetLedger>, ApiError> {
    let target = BudgetTarget::parse(&query)?;
    let sent = body.request;
    if let Some(limit) = sent.overdraft_limit {
        let scope = target.scope.path().as_str();
        if let Err(error) = check_unit("overdraft_limit", limit, target.unit, scope) {
            return Ok(answered(&target, Err(error)));
        }
    }
    let update = BudgetUpdate {
        overdraft_limit: sent.overdraft_limit.map(Amount::value),
        commit_overage_policy: sent.commit_overage_policy,
        metadata: sent.metadata,
    };
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &payload_hash(&body.sent, &target),
    };
    let updated = state
        .admin
        .update_budget(&target.scope, target.unit, &update, &request)
        .await;
    Ok(answered(&target, show(&target, updated)))
}

/// `POST /v1/admin/budgets/freeze`
pub async fn freeze_budget(
    state: State<AppState>,
    cause: Because,
    key: KeyHeader,
    query: RawQuery,
    body: OptionalAdminJson<BudgetStatusTransitionRequest>,
) -> Result<Outcome<BudgetLedger>, ApiError> {
    change_state(true, state, cause, key, query, body).await
}

/// `POST /v1/admin/budgets/unfreeze`
pub async fn unfreeze_budget(
    state: State<AppState>,
    cause: Because,
    key: KeyHeader,
    query: RawQuery,
    body: OptionalAdminJson<BudgetStatusTransitionRequest>,
) -> Result<Outcome<BudgetLedger>, ApiError> {
    change_state(false, state, cause, key, query, body).await
}

async fn change_state(
    frozen: bool,
    State(state): State<AppState>,
    Because(cause): Because,
    KeyHeader(key): KeyHeader,
    RawQuery(query): RawQuery,
    OptionalAdminJson(body): OptionalAdminJson<BudgetStatusTransitionRequest>,
) -> Result<Outcome<BudgetLedger>, ApiError> {
    let target = BudgetTarget::parse(&query)?;
    let request = Request {
        cause: &cause,
        idempotency_key: key.as_ref(),
        payload_hash: &payload_hash(&body.sent, &target),
    };
    let reason = body.request.reason.as_deref();
    let changed = state
        .admin
        .freeze_budget(&target.scope, target.unit, frozen, reason, &request)
        .await;
    Ok(answered(&target, show(&target, changed)))
}

fn payload_hash(sent: &Json, target: &BudgetTarget) -> PayloadHash {
    let selected = [
        ("scope", target.scope.path().as_str()),
        ("unit", target.unit.as_str()),
    ];
    PayloadHash::of_body_and_target(sent, &selected)
}

fn show(
    target: &BudgetTarget,
    ledger: Result<budget_ledger::BudgetLedger, AdminError>,
) -> Result<BudgetLedger, ApiError> {
    let path = target.scope.path();
    let asked = Asked {
        tenant: path.value(Level::Tenant).unwrap_or_default(),
        scope: path.as_str(),
        unit: Some(target.unit),
        ..Asked::default()
    };
    ledger
        .map_err(|error| error_of(error, &asked))
        .and_then(shown::ledger)
}

fn answered(target: &BudgetTarget, shown: Result<BudgetLedger, ApiError>) -> Outcome<BudgetLedger> {
    let owner = target.scope.path().value(Level::Tenant);
    shown
        .map(|shown| Answer(StatusCode::OK, shown))
        .map_err(|error| Declined {
            error,
            tenant: owner.and_then(TenantId::parse),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::fields::Read as _;

    #[test]
    fn null_takes_out_what_is_optional_and_stays_silent_elsewhere() {
        let read = |body: &str| {
            BudgetUpdateRequest::from_json(Json::parse(body.as_bytes()).expect("JSON"))
        };
        let sent = read(r#"{"overdraft_limit":null,"commit_overage_policy":null,"metadata":null}"#);
        let sent = sent.expect("a change");
        assert_eq!(sent.overdraft_limit, None);
        assert_eq!(sent.commit_overage_policy, Patch::Clear);
        assert_eq!(sent.metadata, Patch::Clear);
        assert!(read(r#"{"status":"CLOSED"}"#).is_err());
        assert!(read(r#"{"allocated":{"unit":"TOKENS","amount":1}}"#).is_err());
    }
}
