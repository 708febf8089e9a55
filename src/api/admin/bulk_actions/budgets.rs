//! Funds many budgets of a tenant.

use axum::http::StatusCode;
use serde_json::json;

use super::{BulkBody, bulk_action, response};
use crate::admin::{Admin, BudgetFilter, BulkRequest};
use crate::api::admin::budgets::check_amount;
use crate::api::admin::tenants::named_tenant;
use crate::api::errors::{ApiError, Code};
use crate::api::operation::{Declaration, declare};
use crate::domain::amount::{Amount, Unit};
use crate::domain::budget::ledger::{BudgetStatus, FundingOperation};
use crate::domain::bulk::BulkFunding;
use crate::domain::fields::{Blank, object};
use crate::domain::ids::IdempotencyKey;
use crate::domain::search::{SEARCH_CHARS_MAX, Search};
use crate::store::admin::bulk::BulkResponse;

pub(in crate::api) const BUDGETS: Declaration = declare!(
    bulk_action::<BudgetBulkActionRequest>,
    "Funds up to 500 budgets of a tenant"
)
.takes_change::<BudgetBulkActionRequest>()
.returns::<BudgetBulkActionResponse>(200, "The outcome of each budget.")
.refuses(&[404, 409]);

object! {
    /// Selects budgets of one tenant.
    #[derive(Debug, Clone, PartialEq)]
    pub struct BudgetBulkFilter: Read + Serialize {
        /// Tenant that owns the budget.
        pub tenant_id: String { blank: Blank::Refused },
        /// Beginning of the scope.
        pub scope_prefix: Option<String> { blank: Blank::Null },
        /// Unit.
        pub unit: Option<Unit>,
        /// Status.
        pub status: Option<BudgetStatus>,
        /// Whether the budget is over its limit.
        pub over_limit: Option<bool>,
        /// Whether the budget is in debt.
        pub has_debt: Option<bool>,
        /// Least share of the allocation that was spent.
        pub utilization_min: Option<f64> { range: 0.0..=1.0 },
        /// Greatest share of the allocation that was spent.
        pub utilization_max: Option<f64> { range: 0.0..=1.0 },
        /// Text that tenant or scope must contain, in any case.
        pub search: Option<String> { chars: ..=SEARCH_CHARS_MAX, blank: Blank::Null, trimmed: true },
    }
    check |filter, object| {
        let bounds = filter.utilization_min.zip(filter.utilization_max);
        if bounds.is_some_and(|(least, most)| least > most) {
            object.refuse_member("utilization_min", "must not exceed utilization_max");
        }
    }
}

object! {
    /// Funds many budgets of one tenant.
    #[derive(Debug, Clone, PartialEq)]
    pub struct BudgetBulkActionRequest: Read {
        /// Selects the budgets.
        pub filter: BudgetBulkFilter,
        /// How the figures change.
        pub action: FundingOperation,
        /// By how much, or to what; required but for `RENEW`, which has none. Budgets of another unit fail.
        pub amount: Option<Amount>,
        /// Spent amount after the operation. Only with `RESET_SPENT`; absent: zero.
        pub spent: Option<Amount>,
        /// Reason, for the record.
        pub reason: Option<String> { chars: ..=512 },
        /// Expected number of matches; with another number nothing is done.
        pub expected_count: Option<i64> { range: 0.. },
        /// Identifies this attempt: the same key within 15 minutes changes once.
        pub idempotency_key: IdempotencyKey { chars: 1..=128 },
    }
    check |request, object| {
        if request.spent.is_some() && request.action != FundingOperation::ResetSpent {
            object.refuse_member("spent", "is allowed with action RESET_SPENT only");
        }
        if let Err(reason) = check_amount(request.action, request.amount) {
            object.refuse_member("amount", reason);
        }
    }
}

response! {
    /// The outcome of each budget.
    BudgetBulkActionResponse: FundingOperation
}

impl BulkBody for BudgetBulkActionRequest {
    type Filter = BudgetBulkFilter;

    fn parts(&self) -> (&Self::Filter, Option<i64>, &IdempotencyKey) {
        (&self.filter, self.expected_count, &self.idempotency_key)
    }

    /// Both amounts must count the same.
    fn check(&self) -> Result<(), ApiError> {
        let [unit, spent] = [self.amount, self.spent].map(|amount| amount.map(Amount::unit));
        let Some((unit, other)) = unit.zip(spent).filter(|(unit, spent)| unit != spent) else {
            return Ok(());
        };
        let message = format!("Unit mismatch: spent is in {other}, but amount is in {unit}");
        let details = json!({"requested_unit": other, "expected_units": [unit]});
        let error = ApiError::new(StatusCode::BAD_REQUEST, Code::UnitMismatch, message);
        Err(error.with_details(details))
    }

    async fn run(&self, admin: &Admin, bulk: &BulkRequest<'_>) -> Result<BulkResponse, ApiError> {
        let funding = BulkFunding {
            tenant: named_tenant(&self.filter.tenant_id)?,
            operation: self.action,
            amount: self.amount,
            spent: self.spent.map(Amount::value),
            reason: self.reason.clone().filter(|reason| !reason.is_empty()),
        };
        let filter = &self.filter;
        let filter = BudgetFilter {
            tenant_id: Some(filter.tenant_id.clone()),
            scope_prefix: filter.scope_prefix.clone(),
            unit: filter.unit,
            status: filter.status,
            over_limit: filter.over_limit,
            has_debt: filter.has_debt,
            utilization_min: filter.utilization_min,
            utilization_max: filter.utilization_max,
            search: filter.search.as_deref().map(Search::new),
        };
        Ok(admin.bulk_budgets(&filter, &funding, bulk).await?)
    }
}
