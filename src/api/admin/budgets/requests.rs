//! Requests about one budget: their bodies, and the parameters that name the budget.

use std::fmt::Display;

use axum::http::StatusCode;
use serde_json::json;

use crate::api::admin::extract::{ChangeBody, ChangeTarget};
use crate::api::admin::target_tenant_as_sent;
use crate::api::errors::{ApiError, Code};
use crate::api::query::Query;
use crate::domain::amount::{Amount, Unit};
use crate::domain::budget::ledger::FundingOperation;
use crate::domain::budget::limit::BudgetLimit;
use crate::domain::budget::period::BudgetPeriod;
use crate::domain::caller::Caller;
use crate::domain::fields::{Problems, object};
use crate::domain::ids::IdempotencyKey;
use crate::domain::json::FreeObject;
use crate::domain::scope::BudgetScope;

object! {
    /// Funds a budget.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct BudgetFundingRequest: Read {
        /// How the figures change.
        pub operation: FundingOperation,
        /// By how much, or to what. Required, but for `RENEW`, which has none.
        pub amount: Option<Amount>,
        /// Spent amount after the operation. Only with `RESET_SPENT`; absent: zero.
        pub spent: Option<Amount>,
        /// Reason, for the record.
        pub reason: Option<String> { chars: ..=512 },
        /// Identifies this attempt: the same key changes once.
        pub idempotency_key: Option<IdempotencyKey>,
        /// Data that the operator chooses.
        pub metadata: Option<FreeObject>,
    }
    check |request, object| {
        if request.spent.is_some() && request.operation != FundingOperation::ResetSpent {
            object.refuse_member("spent", "is allowed with operation RESET_SPENT only");
        }
        if let Err(reason) = check_amount(request.operation, request.amount) {
            object.refuse_member("amount", reason);
        }
    }
}

/// Whether a funding operation has an amount if it needs one, and only then.
///
/// # Errors
/// Says what is wrong with the member.
pub(in crate::api::admin) fn check_amount(
    operation: FundingOperation,
    amount: Option<Amount>,
) -> Result<(), &'static str> {
    match (operation, amount) {
        (FundingOperation::Renew, Some(_)) => Err("must be absent with RENEW"),
        (FundingOperation::Renew, None) | (_, Some(_)) => Ok(()),
        (_, None) => Err("is required"),
    }
}

/// The budget that an operation names: `scope` and `unit` of the query string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetTarget {
    /// Its scope.
    pub scope: BudgetScope,
    /// Unit of the budget.
    pub unit: Unit,
    /// The tenant that the query names, if it does.
    pub tenant_id: Option<String>,
}

impl BudgetTarget {
    /// Reads the query string.
    ///
    /// # Errors
    /// 400 naming the parameter.
    pub fn parse(query: &str) -> Result<Self, ApiError> {
        let query = Query::parse_admin(query);
        let scope = query.required("scope")?;
        query.required("unit")?;
        let unit = query.word("unit", Unit::parse, Unit::WORDS)?;
        Ok(Self {
            unit: unit.ok_or_else(|| ApiError::invalid("Missing required parameter: unit"))?,
            scope: read_scope(scope)?,
            tenant_id: query.get("tenant_id")?.map(str::to_owned),
        })
    }
}

impl ChangeTarget for BudgetTarget {
    fn read(_: String, query: &str, _: &Caller) -> Result<Self, ApiError> {
        Self::parse(query)
    }

    fn selected(&self) -> Vec<(&'static str, &str)> {
        vec![
            ("scope", self.scope.path().as_str()),
            ("unit", self.unit.as_str()),
        ]
    }
}

/// The budget to fund, and its owner as the request names it.
#[derive(Debug)]
pub struct FundingTarget {
    /// The budget.
    pub budget: BudgetTarget,
    /// The caller's tenant; for the admin key the one that the query names.
    pub tenant: String,
}

impl ChangeTarget for FundingTarget {
    fn read(_: String, query: &str, caller: &Caller) -> Result<Self, ApiError> {
        let budget = BudgetTarget::parse(query)?;
        let tenant = target_tenant_as_sent(caller, budget.tenant_id.as_deref()).to_owned();
        Ok(Self { budget, tenant })
    }

    fn selected(&self) -> Vec<(&'static str, &str)> {
        let mut selected = self.budget.selected();
        selected.push(("tenant_id", &self.tenant));
        selected
    }
}

impl ChangeBody for BudgetFundingRequest {
    const HAS_KEY: bool = true;

    fn idempotency_key(&self) -> Option<&IdempotencyKey> {
        self.idempotency_key.as_ref()
    }
}

/// The scope of a budget, read by its grammar.
///
/// # Errors
/// 400 naming the segment at fault.
pub(super) fn read_scope(text: &str) -> Result<BudgetScope, ApiError> {
    BudgetScope::parse(text).map_err(|error| Problems::one("scope", error.to_string()).into())
}

/// The amounts of terms that budgets may have, with the members that they are in.
pub(super) fn amounts_of_terms(
    period: Option<&BudgetPeriod>,
    limits: &[BudgetLimit],
) -> Vec<(String, Option<Amount>)> {
    let of_period = period.into_iter().flat_map(|period| {
        let amounts = [
            ("allocated", period.allocated),
            ("carry_limit", period.carry_limit),
        ];
        amounts.map(|(member, amount)| (format!("period.{member}"), amount))
    });
    let limits = limits.iter().enumerate();
    let of_limits = limits.map(|(at, limit)| (format!("limits[{at}].amount"), Some(limit.amount)));
    of_period.chain(of_limits).collect()
}

/// Whether these members, as far as they are sent, count what the budget counts.
///
/// # Errors
/// 400 `UNIT_MISMATCH`, for the first that does not.
pub(in crate::api::admin) fn check_amounts<M: Display>(
    amounts: impl IntoIterator<Item = (M, Option<Amount>)>,
    unit: Unit,
    scope: &str,
) -> Result<(), ApiError> {
    let sent = amounts
        .into_iter()
        .map(|(member, amount)| (member, amount.map_or(unit, Amount::unit)));
    let Some((member, sent)) = sent.into_iter().find(|(_, sent)| *sent != unit) else {
        return Ok(());
    };
    let message =
        format!("Unit mismatch: {member} is in {sent}, but the budget at {scope} counts {unit}");
    let details = json!({"scope": scope, "requested_unit": sent, "expected_units": [unit]});
    Err(ApiError::new(StatusCode::BAD_REQUEST, Code::UnitMismatch, message).with_details(details))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::fields::Read as _;
    use crate::domain::json::Json;
    use crate::domain::rows;

    fn json(body: &str) -> Json {
        Json::parse(body.as_bytes()).unwrap()
    }

    #[test]
    fn spent_is_for_one_operation_only() {
        let fund = |operation: &str, spent: &str| {
            let body = format!(
                r#"{{"operation":"{operation}","amount":{{"unit":"TOKENS","amount":0}},"spent":{spent}}}"#
            );
            BudgetFundingRequest::from_json(json(&body)).map_err(|problems| problems.to_string())
        };
        let spent = r#"{"unit":"TOKENS","amount":5}"#;
        assert!(fund("RESET_SPENT", spent).is_ok());
        assert!(fund("CREDIT", "null").is_ok());
        let only = "Validation failed: spent: is allowed with operation RESET_SPENT only";
        assert_eq!(fund("CREDIT", spent).unwrap_err(), only);
        let unknown = fund("credit", spent).unwrap_err();
        assert!(unknown.contains("operation: must be one of CREDIT, DEBIT, RESET"));
    }

    #[test]
    fn a_target_needs_scope_and_unit() {
        let target =
            BudgetTarget::parse("scope=tenant:ACME%2Fapp:X&unit=TOKENS&tenant_id=acme").unwrap();
        assert_eq!(target.scope.path().as_str(), "tenant:acme/app:x");
        assert_eq!(target.scope.tenant_as_sent(), "ACME");
        for (query, message) in rows(
            "unit=TOKENS => Missing required parameter: scope
            scope=tenant:acme => Missing required parameter: unit
            scope=tenant:acme&unit= => Missing required parameter: unit
            scope=tenant:acme&unit=tokens => Invalid value for parameter 'unit': tokens; allowed: USD_MICROCENTS, TOKENS, CREDITS, RISK_POINTS",
        ) {
            assert_eq!(BudgetTarget::parse(query).unwrap_err().message(), message);
        }
        let error = BudgetTarget::parse("scope=acme&unit=TOKENS").unwrap_err();
        assert!(error.message().contains("`acme`"));
    }
}
