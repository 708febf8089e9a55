//! The HTTP operations on budgets.

pub mod increases;
mod requests;

pub use requests::{BudgetFundingRequest, BudgetTarget, FundingTarget};
use requests::{amounts_of_terms, read_scope};
pub(super) use requests::{check_amount, check_amounts};

use axum::extract::{RawQuery, State};
use serde_json::json;

use crate::admin::{BudgetFilter, BudgetSort, FundReply, Funding};
use crate::api::admin::bind_tenant;
use crate::api::admin::extract::{Change, ChangeBody, Presence};
use crate::api::errors::ApiError;
use crate::api::list::{List, ListCall, Parameters, ReturnsPage, list, list_response};
use crate::api::operation::parameters::{self, Parameter, text};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns, amount};
use crate::api::state::AppState;
use crate::domain::amount::{Amount, SignedAmount, Unit};
use crate::domain::budget::ledger::FundingOperation;
use crate::domain::budget::ledger::{BudgetCreateRequest, BudgetLedger, BudgetUpdateRequest};
use crate::domain::caller::Caller;
use crate::domain::fields::object;
use crate::domain::ids::TenantId;
use crate::domain::json::FreeObject;
use crate::domain::moment::Moment;
use crate::domain::scope::Level;

object! {
    /// A budget's figures before and after it was funded.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct BudgetFundingResponse: Serialize + Open {
        /// How the figures changed.
        pub operation: FundingOperation { described_as: || json!({"type": "string"}) },
        /// Allocated amount before.
        pub previous_allocated: Amount,
        /// Allocated amount now.
        pub new_allocated: Amount,
        /// Remaining amount before.
        pub previous_remaining: SignedAmount,
        /// Remaining amount now.
        pub new_remaining: SignedAmount,
        /// Debt before.
        pub previous_debt: Amount { required: false },
        /// Debt now.
        pub new_debt: Amount { required: false },
        /// Spent amount before.
        pub previous_spent: Amount { required: false },
        /// Spent amount now.
        pub new_spent: Amount { required: false },
        /// When it was funded.
        pub timestamp: Moment { required: false },
    }
}

impl BudgetFundingResponse {
    fn new(operation: FundingOperation, unit: Unit, reply: FundReply) -> Result<Self, ApiError> {
        let FundReply::Funded {
            at,
            allocated,
            remaining,
            debt,
            spent,
        } = reply;
        Ok(Self {
            operation,
            previous_allocated: amount(unit, allocated.previous)?,
            new_allocated: amount(unit, allocated.new)?,
            previous_remaining: SignedAmount::new(unit, remaining.previous),
            new_remaining: SignedAmount::new(unit, remaining.new),
            previous_debt: amount(unit, debt.previous)?,
            new_debt: amount(unit, debt.new)?,
            previous_spent: amount(unit, spent.previous)?,
            new_spent: amount(unit, spent.new)?,
            timestamp: at,
        })
    }
}

/// The parameters that name one budget.
fn target_parameters() -> Vec<Parameter> {
    let units = parameters::words(Unit::WORDS);
    vec![
        parameters::required_query("scope", "Scope of the budget, in any case.", text()),
        parameters::required_query("unit", "Unit of the budget.", units),
    ]
}

pub(in crate::api) const CREATE: Declaration =
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
    let mut amounts = amounts_of_terms(new.period.as_ref(), &new.limits);
    amounts.extend([
        ("allocated".to_owned(), Some(new.allocated)),
        ("overdraft_limit".to_owned(), new.overdraft_limit),
    ]);
    check_amounts(amounts, new.unit, &new.scope)
}

pub(in crate::api) const GET: Declaration =
    declare!(lookup_budget, "Gets the budget of a scope and unit")
        .query(target_parameters)
        .returns::<BudgetLedger>(200, "The budget.")
        .refuses(&[404]);

async fn lookup_budget(
    State(state): State<AppState>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Returns<BudgetLedger> {
    let target = BudgetTarget::parse(&query.unwrap_or_default())?;
    let found = state
        .admin
        .lookup_budget(&caller, &target.scope, target.unit);
    Ok(CheckedJson::ok(found.await?))
}

pub(in crate::api) const UPDATE: Declaration =
    declare!(update_budget, "Changes the settings of a budget")
        .query(target_parameters)
        .takes_change::<BudgetUpdateRequest>()
        .returns::<BudgetLedger>(200, "The budget as it is now.")
        .refuses(&[404, 409]);

impl ChangeBody for BudgetUpdateRequest {}

async fn update_budget(change: Change<BudgetUpdateRequest, BudgetTarget>) -> Returns<BudgetLedger> {
    let (BudgetTarget { scope, unit, .. }, update) = (&change.target, &change.body);
    let limits = update.limits.value().map_or(&[][..], Vec::as_slice);
    let mut amounts = amounts_of_terms(update.period.value(), limits);
    amounts.push(("overdraft_limit".to_owned(), update.overdraft_limit));
    let checked = check_amounts(amounts, *unit, scope.path().as_str());
    let owner = scope.path().value(Level::Tenant);
    checked.map_err(|error| error.about(owner.and_then(TenantId::parse)))?;
    let (admin, request) = (&change.state.admin, change.request());
    let ledger = admin.update_budget(scope, *unit, update, &request).await?;
    Ok(CheckedJson::ok(ledger))
}

pub(in crate::api) const FUND: Declaration = declare!(
    fund_budget,
    "Funds a budget: credits, debits, resets or renews it, or repays its debt"
)
.query(funding_parameters)
.takes_change::<BudgetFundingRequest>()
.returns::<BudgetFundingResponse>(200, "The figures before and after.")
.refuses(&[404, 409]);

fn funding_parameters() -> Vec<Parameter> {
    let mut parameters = target_parameters();
    parameters.push(parameters::query(
        "tenant_id",
        "Tenant that owns the budget. Required with the admin key; without effect with an API key.",
        text(),
    ));
    parameters
}

async fn fund_budget(
    change: Change<BudgetFundingRequest, FundingTarget>,
) -> Returns<BudgetFundingResponse> {
    let (caller, sent, target) = (&change.caller, &change.body, &change.target.budget);
    let state = &change.state;
    let scope = target.scope.path().as_str();
    let amounts = [("amount", sent.amount), ("spent", sent.spent)];
    if let Err(mismatch) = check_amounts(amounts, target.unit, scope) {
        return Err(mismatched(&change, mismatch, scope, &change.target.tenant).await?);
    }
    let funding = Funding {
        tenant_id: target.tenant_id.clone(),
        scope: target.scope.clone(),
        operation: sent.operation,
        unit: target.unit,
        amount: sent.amount.map(Amount::value),
        spent: sent.spent.map(Amount::value),
        reason: sent.reason.clone(),
    };
    let request = change.request();
    let funded = state.admin.fund_budget(caller, &funding, &request).await?;
    let response = BudgetFundingResponse::new(sent.operation, target.unit, funded)?;
    Ok(CheckedJson::ok(response))
}

/// The refusal of an amount in another unit. A key that is restricted to other scopes learns that first.
///
/// # Errors
/// Of the key.
async fn mismatched<T, S>(
    change: &Change<T, S>,
    mismatch: ApiError,
    scope: &str,
    tenant: &str,
) -> Result<ApiError, ApiError> {
    let permission = change.operation.callers.permission();
    let store = &change.state.store;
    store
        .admin_access(&change.caller, permission, scope)
        .await?;
    Ok(mismatch.after_check().about(TenantId::parse(tenant)))
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

impl ChangeBody for BudgetStatusTransitionRequest {
    const PRESENCE: Presence = Presence::Optional;
}

pub(in crate::api) const FREEZE: Declaration = declare!(
    set_frozen::<true>,
    "Freezes a budget: it refuses reservations, usage events and funding"
)
.query(target_parameters)
.idempotent()
.may_take::<BudgetStatusTransitionRequest>()
.returns::<BudgetLedger>(200, "The frozen budget.")
.refuses(&[404, 409]);

pub(in crate::api) const UNFREEZE: Declaration =
    declare!(set_frozen::<false>, "Unfreezes a budget")
        .query(target_parameters)
        .idempotent()
        .may_take::<BudgetStatusTransitionRequest>()
        .returns::<BudgetLedger>(200, "The budget as it is now.")
        .refuses(&[404, 409]);

async fn set_frozen<const FROZEN: bool>(
    change: Change<BudgetStatusTransitionRequest, BudgetTarget>,
) -> Returns<BudgetLedger> {
    let BudgetTarget { scope, unit, .. } = &change.target;
    let (reason, request) = (change.body.reason.as_deref(), change.request());
    let admin = &change.state.admin;
    let ledger = admin.freeze_budget(scope, *unit, FROZEN, reason, &request);
    Ok(CheckedJson::ok(ledger.await?))
}

list_response! {
    /// A page of budgets.
    BudgetListResponse {
        /// The budgets.
        ledgers: BudgetLedger,
        has_more { required: false }
    }
}

struct Budgets;

impl List for Budgets {
    const NAME: &'static str = "budgets";
    const ABOUT_SORT: &'static str = "Order of the rows. `scope` and `tenant_id` have an index. Any other order is refused above \
        10,000 budgets; without `sort_by`, such a list is in the order of `scope`.";
    type Filter = BudgetFilter;
    type Sort = BudgetSort;
    type Response = BudgetListResponse;

    fn filter(parameters: &mut Parameters<'_>) -> Result<BudgetFilter, ApiError> {
        let about = "Tenant that owns the budgets. Required with the admin key, unless the service is set to list budgets of all tenants; \
                     without effect with an API key.";
        let tenant_id = parameters.unbound_text("tenant_id", about)?;
        let about = "Beginning of the scope, in lower case.";
        let scope_prefix = parameters.text("scope_prefix", about)?;
        let unit = parameters.word("unit", "Unit of the budgets.")?;
        let status = parameters.word("status", "The status of the budgets.")?;
        let about = "Whether new reservations are refused until the budget is funded.";
        let over_limit = parameters.flag("over_limit", about)?;
        let has_debt = parameters.flag("has_debt", "Whether the budget is in debt.")?;
        let about = "Least share of the allocation that was spent; 0 if nothing was allocated.";
        let utilization_min = parameters.fraction("utilization_min", about)?;
        let about = "Greatest share of the allocation that was spent; a budget that spent more than its allocation never matches.";
        let utilization_max = parameters.fraction("utilization_max", about)?;
        let bounds = utilization_min.zip(utilization_max);
        if let Some((least, most)) = bounds.filter(|(least, most)| least > most) {
            let what = format!("{least} is above utilization_max {most}");
            return Err(parameters.refusal("utilization_min", &what));
        }
        let about = "Text that tenant or scope must contain, in any case.";
        Ok(BudgetFilter {
            tenant_id,
            scope_prefix,
            unit,
            status,
            over_limit,
            has_debt,
            utilization_min,
            utilization_max,
            search: parameters.search(about)?,
        })
    }

    async fn page(call: &mut ListCall<Self>) -> ReturnsPage<Self> {
        let named = call.list.filter.tenant_id.clone();
        let tenant = bind_tenant(call, named.as_deref());
        let (admin, query) = (&call.state.admin, call.query().await?);
        let page = admin.list_budgets(&call.caller, &query).await;
        page.map_err(|error| ApiError::from(error).about(tenant))
    }
}

pub(in crate::api) const LIST: Declaration = list::<Budgets>("Lists budgets", "A page of budgets.");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::errors::Code;
    use crate::domain::fields::{Patch, Read as _};
    use crate::domain::json::Json;

    fn json(body: &str) -> Json {
        Json::parse(body.as_bytes()).unwrap()
    }

    const BODY: &str =
        r#"{"scope":"tenant:acme","unit":"TOKENS","allocated":{"unit":"TOKENS","amount":1}}"#;

    #[test]
    fn amounts_must_be_in_the_unit_of_the_budget() {
        let check = |body: &str| check_units(&BudgetCreateRequest::from_json(json(body)).unwrap());
        assert!(check(BODY).is_ok());
        let unit = BODY.replace(r#""unit":"TOKENS","all"#, r#""unit":"CREDITS","all"#);
        let limit = BODY.replacen(
            '{',
            r#"{"overdraft_limit":{"unit":"CREDITS","amount":1},"#,
            1,
        );
        for (body, part) in [
            (unit, "allocated is in TOKENS"),
            (limit, "overdraft_limit is in CREDITS"),
        ] {
            let error = check(&body).unwrap_err();
            assert_eq!(error.code(), Code::UnitMismatch);
            assert!(error.message().contains(part), "{}", error.message());
        }
    }

    #[test]
    fn a_scope_is_refused_naming_the_segment() {
        let body = BODY.replace("tenant:acme", "tenant:acme/team:x");
        let request = BudgetCreateRequest::from_json(json(&body)).unwrap();
        let message = read_scope(&request.scope).unwrap_err().message();
        let named = "Validation failed: scope: segment `team:x`";
        assert!(message.starts_with(named), "{message}");
    }

    #[test]
    fn null_removes_optional_members_and_is_ignored_elsewhere() {
        let read = |body: &str| BudgetUpdateRequest::from_json(json(body));
        let sent = read(r#"{"overdraft_limit":null,"commit_overage_policy":null,"metadata":null}"#);
        let sent = sent.expect("a change");
        assert_eq!(sent.overdraft_limit, None);
        assert_eq!(sent.commit_overage_policy, Patch::Clear);
        assert_eq!(sent.metadata, Patch::Clear);
        assert!(read(r#"{"status":"CLOSED"}"#).is_err());
        assert!(read(r#"{"allocated":{"unit":"TOKENS","amount":1}}"#).is_err());
    }
}
