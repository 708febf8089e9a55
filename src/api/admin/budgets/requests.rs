//! What requests about one budget say: their bodies, and which budget.

use axum::http::StatusCode;
use serde_json::json;
use utoipa::ToSchema;

use crate::api::errors::{ApiError, Code};
use crate::api::query::Query;
use crate::domain::amount::{Amount, Unit};
use crate::domain::budget::funding::{FundingOperation, RolloverPolicy};
use crate::domain::fields::{Problems, read_body};
use crate::domain::ids::IdempotencyKey;
use crate::domain::json::{FreeObject, Json};
use crate::domain::moment::Moment;
use crate::domain::policy::OveragePolicy;
use crate::domain::scope::BudgetScope;

/// Makes a budget at a scope.
#[derive(Debug, Clone, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetCreateRequest {
    /// Whose budget it is. Required with the admin key; must be absent with an API key, which names its tenant itself.
    #[schema(max_length = 128, nullable = false)]
    pub tenant_id: Option<String>,
    /// Where it hangs, such as `tenant:acme/workspace:prod`.
    #[schema(min_length = 1, max_length = 1024)]
    pub scope: String,
    /// What it counts.
    pub unit: Unit,
    /// How much it has to begin with.
    pub allocated: Amount,
    /// How much debt is allowed.
    #[schema(nullable = false)]
    pub overdraft_limit: Option<Amount>,
    /// What a commit above its estimate does. Absent: as the tenant's settings say.
    #[schema(nullable = false)]
    pub commit_overage_policy: Option<OveragePolicy>,
    /// Stored and returned; nothing is carried over by itself.
    #[schema(default = "NONE", required = false)]
    pub rollover_policy: RolloverPolicy,
    /// Stored and returned; without influence.
    #[schema(value_type = String, format = DateTime, required = false)]
    pub period_start: Option<Moment>,
    /// Stored and returned; without influence.
    #[schema(value_type = String, format = DateTime, required = false)]
    pub period_end: Option<Moment>,
    /// Data of the operator's own; not returned.
    #[schema(value_type = Object, required = false)]
    pub metadata: Option<FreeObject>,
}

impl BudgetCreateRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Problems`], all of them.
    pub fn from_json(body: Json) -> Result<Self, Problems> {
        read_body(body, |body| {
            let tenant_id = body.optional("tenant_id", |value| value.string(0..=128));
            let scope = body.required("scope", |value| value.text(1024));
            let unit = body.required("unit", Unit::read);
            let allocated = body.required("allocated", Amount::read);
            let overdraft_limit = body.optional("overdraft_limit", Amount::read);
            let commit_overage_policy = body.optional("commit_overage_policy", OveragePolicy::read);
            let rollover_policy = body.optional("rollover_policy", RolloverPolicy::read);
            let period_start = body.optional("period_start", |value| value.moment());
            let period_end = body.optional("period_end", |value| value.moment());
            let metadata = body.optional("metadata", |value| value.free_object());
            Some(Self {
                tenant_id,
                scope: scope?,
                unit: unit?,
                allocated: allocated?,
                overdraft_limit,
                commit_overage_policy,
                rollover_policy: rollover_policy.unwrap_or(RolloverPolicy::None),
                period_start,
                period_end,
                metadata,
            })
        })
    }

    /// The scope, read by its grammar. Call after [`Self::check_units`], which is refused first.
    ///
    /// # Errors
    /// 400 naming the segment at fault.
    pub fn budget_scope(&self) -> Result<BudgetScope, ApiError> {
        read_scope(&self.scope)
    }

    /// Whether all amounts count what the budget counts.
    ///
    /// # Errors
    /// 400 `UNIT_MISMATCH`.
    pub fn check_units(&self) -> Result<(), ApiError> {
        check_unit("allocated", self.allocated, self.unit, &self.scope)?;
        match self.overdraft_limit {
            Some(limit) => check_unit("overdraft_limit", limit, self.unit, &self.scope),
            None => Ok(()),
        }
    }
}

/// Changes what a budget has.
#[derive(Debug, Clone, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetFundingRequest {
    /// In which way.
    pub operation: FundingOperation,
    /// By how much, or to what.
    pub amount: Amount,
    /// What counts as spent afterwards. With `RESET_SPENT` only; absent: nothing.
    #[schema(nullable = false)]
    pub spent: Option<Amount>,
    /// Why, for the record.
    #[schema(max_length = 512, nullable = false)]
    pub reason: Option<String>,
    /// Names this attempt; repeating it under the same key changes once.
    #[schema(value_type = String, min_length = 1, max_length = 256, required = false)]
    pub idempotency_key: Option<IdempotencyKey>,
    /// Data of the operator's own.
    #[schema(value_type = Object, required = false)]
    pub metadata: Option<FreeObject>,
}

impl BudgetFundingRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Problems`], all of them.
    pub fn from_json(body: Json) -> Result<Self, Problems> {
        read_body(body, |body| {
            let operation = body.required("operation", FundingOperation::read);
            let amount = body.required("amount", Amount::read);
            let spent = body.optional("spent", Amount::read);
            let reason = body.optional("reason", |value| value.string(0..=512));
            let idempotency_key = body.optional("idempotency_key", |value| value.idempotency_key());
            let metadata = body.optional("metadata", |value| value.free_object());
            let resets_spent =
                operation.is_none_or(|operation| operation == FundingOperation::ResetSpent);
            if spent.is_some() && !resets_spent {
                body.refuse_member("spent", "is allowed with operation RESET_SPENT only");
            }
            Some(Self {
                operation: operation?,
                amount: amount?,
                spent,
                reason,
                idempotency_key,
                metadata,
            })
        })
    }

    /// Whether all amounts count what the budget counts.
    ///
    /// # Errors
    /// 400 `UNIT_MISMATCH`.
    pub fn check_units(&self, target: &BudgetTarget) -> Result<(), ApiError> {
        let scope = target.scope.path().as_str();
        check_unit("amount", self.amount, target.unit, scope)?;
        match self.spent {
            Some(spent) => check_unit("spent", spent, target.unit, scope),
            None => Ok(()),
        }
    }
}

/// Which budget an operation is about: `scope` and `unit` of the query string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetTarget {
    /// Its scope.
    pub scope: BudgetScope,
    /// What it counts.
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
        let unit = query.word("unit", Unit::parse, &Unit::ALL.map(Unit::as_str))?;
        Ok(Self {
            unit: unit.ok_or_else(|| ApiError::invalid("Missing required parameter: unit"))?,
            scope: read_scope(scope)?,
            tenant_id: query.get("tenant_id")?.map(str::to_owned),
        })
    }
}

fn read_scope(text: &str) -> Result<BudgetScope, ApiError> {
    BudgetScope::parse(text).map_err(|error| Problems::one("scope", error.to_string()).into())
}

pub(in crate::api::admin) fn check_unit(
    member: &str,
    amount: Amount,
    unit: Unit,
    scope: &str,
) -> Result<(), ApiError> {
    if amount.unit() == unit {
        return Ok(());
    }
    let sent = amount.unit();
    let message =
        format!("Unit mismatch: {member} is in {sent}, but the budget at {scope} counts {unit}");
    let details = json!({"scope": scope, "requested_unit": sent, "expected_units": [unit]});
    Err(ApiError::new(StatusCode::BAD_REQUEST, Code::UnitMismatch, message).with_details(details))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(body: &str) -> Json {
        Json::parse(body.as_bytes()).unwrap()
    }

    const CREATE: &str =
        r#"{"scope":"tenant:acme","unit":"TOKENS","allocated":{"unit":"TOKENS","amount":1}}"#;

    #[test]
    fn amounts_must_count_what_the_budget_counts() {
        let check = |body: &str| {
            BudgetCreateRequest::from_json(json(body))
                .unwrap()
                .check_units()
        };
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
        let message = request.budget_scope().unwrap_err().message();
        assert!(
            message.starts_with("Validation failed: scope: segment `team:x`"),
            "{message}"
        );
    }

    #[test]
    fn spent_belongs_to_one_operation() {
        let fund = |operation: &str, spent: &str| {
            let body = format!(
                r#"{{"operation":"{operation}","amount":{{"unit":"TOKENS","amount":0}},"spent":{spent}}}"#
            );
            BudgetFundingRequest::from_json(json(&body)).map_err(|problems| problems.to_string())
        };
        let spent = r#"{"unit":"TOKENS","amount":5}"#;
        assert!(fund("RESET_SPENT", spent).is_ok());
        assert!(fund("CREDIT", "null").is_ok());
        assert_eq!(
            fund("CREDIT", spent).unwrap_err(),
            "Validation failed: spent: is allowed with operation RESET_SPENT only"
        );
        assert!(
            fund("credit", spent)
                .unwrap_err()
                .contains("operation: must be one of CREDIT, DEBIT, RESET")
        );
    }

    #[test]
    fn a_target_needs_scope_and_unit() {
        let target =
            BudgetTarget::parse("scope=tenant:ACME%2Fapp:X&unit=TOKENS&tenant_id=acme").unwrap();
        assert_eq!(target.scope.path().as_str(), "tenant:acme/app:x");
        assert_eq!(target.scope.tenant_as_sent(), "ACME");
        for (query, message) in [
            ("unit=TOKENS", "Missing required parameter: scope"),
            ("scope=tenant:acme", "Missing required parameter: unit"),
            (
                "scope=tenant:acme&unit=",
                "Missing required parameter: unit",
            ),
            (
                "scope=tenant:acme&unit=tokens",
                "Invalid value for parameter 'unit': tokens; allowed: USD_MICROCENTS, TOKENS, CREDITS, RISK_POINTS",
            ),
        ] {
            assert_eq!(BudgetTarget::parse(query).unwrap_err().message(), message);
        }
        assert!(
            BudgetTarget::parse("scope=acme&unit=TOKENS")
                .unwrap_err()
                .message()
                .contains("`acme`")
        );
    }
}
