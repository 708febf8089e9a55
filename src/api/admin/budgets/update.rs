//! Changes what an operator set on a budget.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::on;

use super::{BudgetLedger, BudgetTarget, change_parameters, check_unit};
use crate::admin::{AdminError, BudgetUpdate, Request};
use crate::api::admin::extract::{AdminJson, IdempotencyKeyHeader};
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::extract::RawQuery;
use crate::api::operation::{Declaration, json, required};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::amount::Amount;
use crate::domain::budget::ledger;
use crate::domain::cause::Cause;
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

pub(in crate::api) const DECLARATION: Declaration = Declaration {
    summary: "Changes what an operator set on a budget",
    parameters: change_parameters,
    request: required::<BudgetUpdateRequest>(),
    responses: &[json::<BudgetLedger>(200, "The budget as it is now.")],
    errors: &[404, 409],
    handler: |method| on(method, update_budget),
};

async fn update_budget(
    State(state): State<AppState>,
    cause: Cause,
    IdempotencyKeyHeader(key): IdempotencyKeyHeader,
    RawQuery(query): RawQuery,
    body: AdminJson<BudgetUpdateRequest>,
) -> Returns<BudgetLedger> {
    let target = BudgetTarget::parse(&query)?;
    let sent = body.request;
    if let Some(limit) = sent.overdraft_limit {
        let scope = target.scope.path().as_str();
        let checked = check_unit("overdraft_limit", limit, target.unit, scope);
        checked.map_err(|error| error.about(owner(&target)))?;
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
    changed(updated, &target)
}

/// Digest of a change to the budget that a request selects.
pub(super) fn payload_hash(sent: &Json, target: &BudgetTarget) -> PayloadHash {
    let selected = [
        ("scope", target.scope.path().as_str()),
        ("unit", target.unit.as_str()),
    ];
    PayloadHash::of_body_and_target(sent, &selected)
}

/// The response to a change of a budget.
pub(super) fn changed(
    changed: Result<ledger::BudgetLedger, AdminError>,
    target: &BudgetTarget,
) -> Returns<BudgetLedger> {
    let path = target.scope.path();
    let context = ErrorContext {
        tenant: path.value(Level::Tenant).unwrap_or_default(),
        scope: path.as_str(),
        unit: Some(target.unit),
        ..ErrorContext::default()
    };
    let ledger = changed.map_err(|error| error_of(error, &context).about(owner(target)))?;
    Ok(CheckedJson(StatusCode::OK, ledger.try_into()?))
}

fn owner(target: &BudgetTarget) -> Option<TenantId> {
    let tenant = target.scope.path().value(Level::Tenant);
    tenant.and_then(TenantId::parse)
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
