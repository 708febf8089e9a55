//! Changes the settings of a budget.

use super::{BudgetTarget, check_amounts, target_parameters};
use crate::api::admin::extract::{Change, ChangeBody};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::domain::budget::ledger::{BudgetLedger, BudgetUpdateRequest};
use crate::domain::ids::TenantId;
use crate::domain::scope::{BudgetScope, Level};

pub(in crate::api) const DECLARATION: Declaration =
    declare!(update_budget, "Changes the settings of a budget")
        .query(target_parameters)
        .takes_change::<BudgetUpdateRequest>()
        .returns::<BudgetLedger>(200, "The budget as it is now.")
        .refuses(&[404, 409]);

impl ChangeBody for BudgetUpdateRequest {}

async fn update_budget(change: Change<BudgetUpdateRequest, BudgetTarget>) -> Returns<BudgetLedger> {
    let (BudgetTarget { scope, unit, .. }, update) = (&change.target, &change.body);
    let limit = [("overdraft_limit", update.overdraft_limit)];
    let checked = check_amounts(limit, *unit, scope.path().as_str());
    checked.map_err(|error| error.about(owner(scope)))?;
    let (admin, request) = (&change.state.admin, change.request());
    let ledger = admin.update_budget(scope, *unit, update, &request).await?;
    Ok(CheckedJson::ok(ledger))
}

fn owner(scope: &BudgetScope) -> Option<TenantId> {
    let tenant = scope.path().value(Level::Tenant);
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
