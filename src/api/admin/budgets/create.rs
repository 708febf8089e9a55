//! Creates a budget.

use super::check_amounts;
use super::requests::read_scope;
use crate::api::admin::extract::{Change, ChangeBody};
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::domain::budget::ledger::{BudgetCreateRequest, BudgetLedger};

pub(in crate::api) const DECLARATION: Declaration =
    declare!(create_budget, "Creates a budget at a scope")
        .takes_change::<BudgetCreateRequest>()
        .returns::<BudgetLedger>(201, "The new budget.")
        .refuses(&[409]);

impl ChangeBody for BudgetCreateRequest {}

async fn create_budget(change: Change<BudgetCreateRequest>) -> Returns<BudgetLedger> {
    let (caller, new) = (&change.caller, &change.body);
    check_units(new)?;
    let scope = read_scope(&new.scope)?;
    let (admin, request) = (&change.state.admin, change.request());
    let created = admin.create_budget(caller, new, &scope, &request).await?;
    Ok(CheckedJson::created(created))
}

/// Whether all amounts count what the budget counts.
///
/// # Errors
/// 400 `UNIT_MISMATCH`.
fn check_units(new: &BudgetCreateRequest) -> Result<(), ApiError> {
    let limit = ("overdraft_limit", new.overdraft_limit);
    check_amounts(
        [("allocated", Some(new.allocated)), limit],
        new.unit,
        &new.scope,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::errors::Code;
    use crate::domain::fields::Read as _;
    use crate::domain::json::Json;

    fn json(body: &str) -> Json {
        Json::parse(body.as_bytes()).unwrap()
    }

    const CREATE: &str =
        r#"{"scope":"tenant:acme","unit":"TOKENS","allocated":{"unit":"TOKENS","amount":1}}"#;

    #[test]
    fn amounts_must_count_what_the_budget_counts() {
        let check = |body: &str| check_units(&BudgetCreateRequest::from_json(json(body)).unwrap());
        assert!(check(CREATE).is_ok());
        let error = check(&CREATE.replace(r#""unit":"TOKENS","all"#, r#""unit":"CREDITS","all"#))
            .unwrap_err();
        assert_eq!(error.code(), Code::UnitMismatch);
        assert!(
            error.message().contains("allocated is in TOKENS"),
            "{}",
            error.message()
        );
        let limit = CREATE.replace(
            r#""scope""#,
            r#""overdraft_limit":{"unit":"CREDITS","amount":1},"scope""#,
        );
        assert!(
            check(&limit)
                .unwrap_err()
                .message()
                .contains("overdraft_limit is in CREDITS")
        );
    }

    #[test]
    fn a_scope_is_refused_naming_the_segment() {
        let request = BudgetCreateRequest::from_json(json(
            &CREATE.replace("tenant:acme", "tenant:acme/team:x"),
        ))
        .unwrap();
        let message = read_scope(&request.scope).unwrap_err().message();
        assert!(
            message.starts_with("Validation failed: scope: segment `team:x`"),
            "{message}"
        );
    }
}
