//! Changes what an operator set on a budget.

use super::{BudgetTarget, check_unit, target_parameters};
use crate::admin::AdminError;
use crate::api::admin::extract::{Change, ChangeBody};
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::domain::budget::ledger::{BudgetLedger, BudgetUpdateRequest};
use crate::domain::ids::TenantId;
use crate::domain::scope::Level;

pub(in crate::api) const DECLARATION: Declaration =
    declare!(update_budget, "Changes what an operator set on a budget")
        .query(target_parameters)
        .takes_change::<BudgetUpdateRequest>()
        .returns::<BudgetLedger>(200, "The budget as it is now.")
        .refuses(&[404, 409]);

impl ChangeBody for BudgetUpdateRequest {}

async fn update_budget(change: Change<BudgetUpdateRequest, BudgetTarget>) -> Returns<BudgetLedger> {
    let (target, update) = (&change.target, &change.body);
    if let Some(limit) = update.overdraft_limit {
        let scope = target.scope.path().as_str();
        let checked = check_unit("overdraft_limit", limit, target.unit, scope);
        checked.map_err(|error| error.about(owner(target)))?;
    }
    let updated = change
        .state
        .admin
        .update_budget(&target.scope, target.unit, update, &change.request())
        .await;
    changed(updated, target)
}

/// The response to a change of a budget.
pub(super) fn changed(
    changed: Result<BudgetLedger, AdminError>,
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
    Ok(CheckedJson::ok(ledger))
}

fn owner(target: &BudgetTarget) -> Option<TenantId> {
    let tenant = target.scope.path().value(Level::Tenant);
    tenant.and_then(TenantId::parse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::fields::{Patch, Read as _};
    use crate::domain::json::Json;

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
