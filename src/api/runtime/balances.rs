//! What budgets hold and have left.

use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::own_tenant;
use crate::api::errors::ApiError;
use crate::api::extract::RawQuery;
use crate::api::list::{Limit, List, ListRequest, Parameters, list_response, parameters};
use crate::api::operation::parameters::query as parameter;
use crate::api::operation::{Declaration, Plane, declare};
use crate::api::refusals::{ErrorContext, error_of, store_error};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::amount::{Amount, SignedAmount};
use crate::domain::budget;
use crate::domain::caller::RuntimeCaller;
use crate::domain::scope::{Level, ScopePath};
use crate::ledger::BalanceFilter;
use crate::listing::OneOrder;

/// One budget at one moment. All amounts are of one unit, and `remaining = allocated - spent - reserved - debt`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Balance {
    /// The level itself, such as `workspace:prod`.
    scope: String,
    /// The whole path, such as `tenant:acme/workspace:prod`.
    #[schema(value_type = String)]
    scope_path: ScopePath,
    /// What may still be reserved. Negative in debt.
    remaining: SignedAmount,
    /// What reservations hold.
    #[schema(required = false)]
    reserved: Amount,
    /// What was charged.
    #[schema(required = false)]
    spent: Amount,
    /// What was charged beyond what was there. Absent when zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    debt: Option<Amount>,
    /// What the operator has given.
    #[schema(required = false)]
    allocated: Amount,
    /// How much debt is allowed. Absent when zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    overdraft_limit: Option<Amount>,
    /// Whether new reservations are refused until the budget is funded. Absent when not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    is_over_limit: bool,
}

impl Balance {
    /// `None` if a figure is negative, which no sound record has.
    fn of(budget: &budget::Balance) -> Option<Self> {
        let (unit, scope) = (budget.unit, &budget.scope);
        let amount = |figure: i64| Amount::new(unit, figure);
        let unless_zero = |amount: Amount| Some(amount).filter(|amount| amount.value() > 0);
        Some(Self {
            scope: scope.last_segment().to_owned(),
            scope_path: scope.clone(),
            remaining: SignedAmount::new(unit, budget.remaining()),
            reserved: amount(budget.reserved)?,
            spent: amount(budget.spent)?,
            debt: unless_zero(amount(budget.debt)?),
            allocated: amount(budget.allocated)?,
            overdraft_limit: unless_zero(amount(budget.overdraft_limit)?),
            is_over_limit: budget.is_over_limit,
        })
    }
}

/// Ledgers as responses show them.
///
/// # Errors
/// 500 when a figure is negative: the record is corrupt.
pub(super) fn balances_of(balances: &[budget::Balance]) -> Result<Vec<Balance>, ApiError> {
    let shown = balances.iter().map(Balance::of).collect::<Option<_>>();
    shown.ok_or_else(|| ApiError::internal("a ledger has a negative figure"))
}

list_response! {
    /// A page of balances, by scope path and then unit.
    #[serde(deny_unknown_fields)]
    BalanceResponse {
        /// The budgets.
        balances: Balance,
        #[schema(required = false)]
        has_more,
    }
}

/// The list of balances. Its cursors are bound to the tenant besides.
#[derive(Debug)]
struct Balances;

impl List for Balances {
    const NAME: &'static str = "balances";
    const PLANE: Plane = Plane::Runtime;
    const LIMIT: Limit = Limit::UpTo(200);
    const SORTABLE: bool = false;
    type Filter = BalanceFilter;
    type Sort = OneOrder;

    fn filter(parameters: &mut Parameters<'_>) -> Result<BalanceFilter, ApiError> {
        let about = "The tenant: only the API key's own. One of these filters is required.";
        let (tenant, segments) = parameters.levels(about)?;
        parameters.require(tenant.is_some() || !segments.is_empty(), || {
            let levels = Level::ALL.map(Level::as_str).join(", ");
            ApiError::invalid(format!("At least one of {levels} is required as a filter"))
        })?;
        let children = parameters.other(|| {
            let about = "Without effect: deeper scopes are always included.";
            let schema = json!({"type": "boolean", "default": false});
            parameter("include_children", about, schema)
        });
        children.word(
            "include_children",
            |word| word.parse::<bool>().ok(),
            &["true", "false"],
        )?;
        Ok(BalanceFilter { tenant, segments })
    }
}

pub(in crate::api) const DECLARATION: Declaration = declare!(
    get_balances,
    "Lists budgets with what they hold and have left"
)
.query(parameters::<Balances>)
.returns::<BalanceResponse>(200, "A page of balances.");

async fn get_balances(
    State(state): State<AppState>,
    caller: RuntimeCaller,
    RawQuery(query): RawQuery,
) -> Returns<BalanceResponse> {
    let mut list = ListRequest::<Balances>::parse(&query)?;
    list.bind("tenant", &caller.tenant);
    let secret = state.store.secret().await.map_err(store_error)?;
    let wanted = list.query(secret)?;
    own_tenant(&state, &caller, list.filter.tenant.as_deref()).await?;
    let page = state.ledger.balances(&caller, &wanted).await;
    let page = page.map_err(|error| error_of(error, ErrorContext::default()))?;
    let next = list.next_cursor(&page, secret);
    let response = BalanceResponse::new(balances_of(&page.rows)?, next);
    Ok(CheckedJson(StatusCode::OK, response))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::amount::Unit;
    use crate::domain::ids::{DeploymentSecret, TenantId};
    use crate::listing::{Page, Position, Sort};

    fn parse(query: &str) -> ListRequest<Balances> {
        ListRequest::parse(query).unwrap_or_else(|error| panic!("{query}: {}", error.message()))
    }

    fn refusal(query: &str) -> String {
        let refused = ListRequest::<Balances>::parse(query);
        refused.expect_err(query).message()
    }

    #[test]
    fn absent_figures_are_left_out_and_nothing_is_null() {
        let figures = budget::Balance {
            scope: ScopePath::parse("tenant:acme/workspace:prod").unwrap(),
            unit: Unit::Tokens,
            allocated: 1000,
            spent: 0,
            reserved: 300,
            debt: 0,
            overdraft_limit: 0,
            is_over_limit: false,
        };
        let text = |figures| serde_json::to_string(&Balance::of(&figures)).unwrap();
        assert_eq!(
            text(figures.clone()),
            r#"{"scope":"workspace:prod","scope_path":"tenant:acme/workspace:prod","remaining":{"unit":"TOKENS","amount":700},"reserved":{"unit":"TOKENS","amount":300},"spent":{"unit":"TOKENS","amount":0},"allocated":{"unit":"TOKENS","amount":1000}}"#
        );
        let indebted = text(budget::Balance {
            allocated: 0,
            reserved: 0,
            debt: 5,
            overdraft_limit: i64::MAX,
            is_over_limit: true,
            ..figures.clone()
        });
        assert!(indebted.contains(r#""remaining":{"unit":"TOKENS","amount":-5}"#));
        assert!(indebted.contains(r#""debt":{"unit":"TOKENS","amount":5}"#));
        let limit = r#""overdraft_limit":{"unit":"TOKENS","amount":9223372036854775807}"#;
        assert!(indebted.contains(limit));
        assert!(indebted.ends_with(r#""is_over_limit":true}"#));
        let negative = budget::Balance {
            spent: -1,
            ..figures
        };
        assert_eq!(Balance::of(&negative), None);
    }

    #[test]
    fn a_filter_is_required_and_blank_is_none() {
        for query in [
            "",
            "limit=10",
            "tenant=",
            "tenant=%20%20&agent=",
            "team=x",
            "include_children=true",
        ] {
            let required = "At least one of tenant, workspace, app, workflow, agent, toolset is required as a filter";
            assert_eq!(refusal(query), required, "{query}");
        }
        let list = parse("workspace=Prod&agent=%20&unknown=1&include_children=false");
        assert_eq!(
            list.filter.segments.segments().collect::<Vec<_>>(),
            ["workspace:prod"]
        );
        assert_eq!(list.filter.tenant, None);
        let query = list.query(&DeploymentSecret::generate()).unwrap();
        assert_eq!(query.limit, 50);
    }

    #[test]
    fn parameters_are_named_when_they_are_wrong() {
        for (query, message) in [
            (
                "agent=a&limit=0",
                "Invalid limit: 0; it must be an integer from 1 to 200",
            ),
            (
                "agent=a&limit=201",
                "Invalid limit: 201; it must be an integer from 1 to 200",
            ),
            (
                "agent=a&limit=abc",
                "Invalid limit: abc; it must be an integer from 1 to 200",
            ),
            (
                "agent=a&limit=%2B5",
                "Invalid limit: +5; it must be an integer from 1 to 200",
            ),
            (
                "agent=a&include_children=yes",
                "Invalid include_children: yes; allowed: true, false",
            ),
            ("agent=a&agent=b", "Invalid agent: given more than once"),
        ] {
            assert_eq!(refusal(query), message);
        }
    }

    #[test]
    fn a_cursor_goes_on_after_its_row_and_belongs_to_tenant_and_filters() {
        let secret = DeploymentSecret::generate();
        let [acme, other] = ["acme", "other"].map(|tenant| TenantId::parse(tenant).unwrap());
        let of = |query: &str, tenant: &TenantId| {
            let mut list = parse(query);
            list.bind("tenant", tenant);
            list
        };
        let last = Position::of_id("tenant:acme/agent:x 2 CREDITS");
        let page = Page::<(), _> {
            rows: Vec::new(),
            sort: Sort {
                by: OneOrder,
                descending: true,
            },
            next: Some(last.clone()),
        };
        let first = of("agent=x&limit=1", &acme);
        let cursor = first.next_cursor(&page, &secret).unwrap();
        let next = |query: &str, tenant: &TenantId| {
            of(&format!("{query}&cursor={cursor}"), tenant).query(&secret)
        };
        for query in [
            "agent=x",
            "agent=X&limit=200",
            "agent=x&tenant=acme",
            "agent=x&include_children=true",
        ] {
            let after = next(query, &acme).unwrap().after;
            assert_eq!(after, Some(last.clone()), "{query}");
        }
        assert!(next("agent=x", &other).is_err());
        assert!(next("agent=y", &acme).is_err());
        assert!(next("agent=x&app=a", &acme).is_err());
    }
}
