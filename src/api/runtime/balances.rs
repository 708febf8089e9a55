//! What budgets hold and have left.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::on;
use serde::Serialize;
use utoipa::ToSchema;

use super::own_tenant;
use super::reservations::level_filters;
use crate::api::cursor::{Cursor, CursorError, Last};
use crate::api::errors::ApiError;
use crate::api::extract::RawQuery;
use crate::api::operation::parameters::{self, Parameter};
use crate::api::operation::{Declaration, json};
use crate::api::query::{self, PAGE_LIMIT_MAX, Query};
use crate::api::refusals::{ErrorContext, error_of, store_error};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::amount::{Amount, SignedAmount, Unit};
use crate::domain::budget;
use crate::domain::caller::RuntimeCaller;
use crate::domain::ids::{DeploymentSecret, TenantId};
use crate::domain::scope::{Level, ScopePath, SegmentFilter};
use crate::ledger;

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

/// The stored figures of a budget, all in its unit and none negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// What the operator has given.
    pub allocated: i64,
    /// What was charged.
    pub spent: i64,
    /// What reservations hold.
    pub reserved: i64,
    /// What was charged beyond what was there.
    pub debt: i64,
    /// How much debt is allowed.
    pub overdraft_limit: i64,
    /// Whether new reservations are refused.
    pub is_over_limit: bool,
}

impl Balance {
    /// `remaining` follows from the figures. `None` if a figure is negative or `remaining` leaves the range of int64, which
    /// no sound record does.
    pub fn new(scope: &ScopePath, unit: Unit, figures: Figures) -> Option<Self> {
        let Figures {
            allocated,
            spent,
            reserved,
            debt,
            overdraft_limit,
            is_over_limit,
        } = figures;
        let remaining =
            i128::from(allocated) - i128::from(spent) - i128::from(reserved) - i128::from(debt);
        let positive = |value: i64| Amount::new(unit, value).filter(|amount| amount.value() > 0);
        if debt < 0 || overdraft_limit < 0 {
            return None;
        }
        Some(Self {
            scope: scope.last_segment().to_owned(),
            scope_path: scope.clone(),
            remaining: SignedAmount::new(unit, i64::try_from(remaining).ok()?),
            reserved: Amount::new(unit, reserved)?,
            spent: Amount::new(unit, spent)?,
            debt: positive(debt),
            allocated: Amount::new(unit, allocated)?,
            overdraft_limit: positive(overdraft_limit),
            is_over_limit,
        })
    }
}

/// A page of balances, by scope path and then unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BalanceResponse {
    /// The budgets.
    pub balances: Vec<Balance>,
    /// Leads to the next page. Absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
    /// Whether there is a next page.
    #[schema(required = false)]
    pub has_more: bool,
}

impl BalanceResponse {
    /// With a cursor there is more; without one there is not.
    pub fn new(balances: Vec<Balance>, next_cursor: Option<String>) -> Self {
        Self {
            balances,
            has_more: next_cursor.is_some(),
            next_cursor,
        }
    }
}

/// Which budgets a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BalanceQuery {
    /// The tenant as it was sent; the caller's own if absent.
    pub tenant: Option<String>,
    /// Segments that a budget's path must contain, below the tenant.
    pub segments: SegmentFilter,
    /// Rows on a page.
    pub limit: usize,
    cursor: Option<String>,
}

impl BalanceQuery {
    /// Reads the query string.
    ///
    /// # Errors
    /// 400 naming the parameter; also when no filter is given.
    pub fn parse(query: &str) -> Result<Self, ApiError> {
        let query = Query::parse(query);
        let tenant = query.get(Level::Tenant.as_str())?.map(str::to_owned);
        let segments = query::segments(&query)?;
        if tenant.is_none() && segments.is_empty() {
            let message = "At least one of tenant, workspace, app, workflow, agent, toolset is required as a filter";
            return Err(ApiError::invalid(message));
        }
        // Accepted and without effect: deeper scopes are always included.
        query.boolean("include_children")?;
        Ok(Self {
            tenant,
            segments,
            limit: query::page_limit(&query)?,
            cursor: query.get("cursor")?.map(str::to_owned),
        })
    }

    /// The place after which the page starts: the scope path and the unit of the row before it.
    ///
    /// # Errors
    /// 400 when the cursor was not made for this query and tenant.
    pub fn start(
        &self,
        tenant: &TenantId,
        secret: &DeploymentSecret,
    ) -> Result<Option<(ScopePath, Unit)>, ApiError> {
        let Some(text) = &self.cursor else {
            return Ok(None);
        };
        let cursor = Cursor::open(text, LIST, &self.bound(tenant), secret)?;
        let start = ScopePath::parse(&cursor.last.value).zip(Unit::parse(&cursor.last.id));
        start
            .map(Some)
            .ok_or_else(|| CursorError::Unreadable.into())
    }

    /// The cursor of the page after this row.
    pub fn next_cursor(
        &self,
        tenant: &TenantId,
        last: (&ScopePath, Unit),
        secret: &DeploymentSecret,
    ) -> String {
        let cursor = Cursor {
            sort: "scope_path".to_owned(),
            descending: false,
            last: Last {
                value: last.0.to_string(),
                id: last.1.to_string(),
            },
        };
        cursor.seal(LIST, &self.bound(tenant), secret)
    }

    fn bound(&self, tenant: &TenantId) -> Vec<(&'static str, String)> {
        let segments: Vec<String> = self.segments.segments().collect();
        vec![
            ("tenant", tenant.to_string()),
            ("segments", segments.join("/")),
        ]
    }
}

const LIST: &str = "balances";

/// Ledgers as responses show them.
///
/// # Errors
/// 500 when a figure is negative: the record is corrupt.
pub(super) fn balances_of(balances: &[budget::Balance]) -> Result<Vec<Balance>, ApiError> {
    let balances = balances.iter().map(|balance| {
        let figures = Figures {
            allocated: balance.allocated,
            spent: balance.spent,
            reserved: balance.reserved,
            debt: balance.debt,
            overdraft_limit: balance.overdraft_limit,
            is_over_limit: balance.is_over_limit,
        };
        let balance = Balance::new(&balance.scope, balance.unit, figures);
        balance.ok_or_else(|| ApiError::internal("a ledger has a negative figure"))
    });
    balances.collect()
}

pub(in crate::api) const DECLARATION: Declaration = Declaration {
    summary: "Lists budgets with what they hold and have left",
    parameters,
    request: None,
    responses: &[json::<BalanceResponse>(200, "A page of balances.")],
    errors: &[],
    handler: |method| on(method, get_balances),
};

fn parameters() -> Vec<Parameter> {
    let mut parameters =
        level_filters("The tenant: only the API key's own. One of these filters is required.");
    parameters.extend([
        parameters::query(
            "include_children",
            "Without effect: deeper scopes are always included.",
            serde_json::json!({"type": "boolean", "default": false}),
        ),
        parameters::limit(PAGE_LIMIT_MAX, "Most rows on the page."),
        parameters::cursor(),
    ]);
    parameters
}

async fn get_balances(
    State(state): State<AppState>,
    caller: RuntimeCaller,
    RawQuery(query): RawQuery,
) -> Returns<BalanceResponse> {
    let query = BalanceQuery::parse(&query)?;
    let secret = state.store.secret().await.map_err(store_error)?;
    let after = query.start(&caller.tenant, secret)?;
    own_tenant(&state, &caller, query.tenant.as_deref()).await?;
    let wanted = ledger::BalanceQuery {
        segments: query.segments.clone(),
        limit: query.limit,
        after,
    };
    let page = state.ledger.balances(&caller, &wanted).await;
    let page = page.map_err(|error| error_of(error, ErrorContext::default()))?;
    let next = page
        .next
        .as_ref()
        .map(|(scope, unit)| query.next_cursor(&caller.tenant, (scope, *unit), secret));
    let balances = balances_of(&page.balances)?;
    Ok(CheckedJson(
        StatusCode::OK,
        BalanceResponse::new(balances, next),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(query: &str) -> String {
        BalanceQuery::parse(query).expect_err(query).message()
    }

    #[test]
    fn absent_figures_are_left_out_and_nothing_is_null() {
        let scope = ScopePath::parse("tenant:acme/workspace:prod").unwrap();
        let figures = Figures {
            allocated: 1000,
            reserved: 300,
            ..Figures::default()
        };
        let text =
            |figures| serde_json::to_string(&Balance::new(&scope, Unit::Tokens, figures)).unwrap();
        assert_eq!(
            text(figures),
            r#"{"scope":"workspace:prod","scope_path":"tenant:acme/workspace:prod","remaining":{"unit":"TOKENS","amount":700},"reserved":{"unit":"TOKENS","amount":300},"spent":{"unit":"TOKENS","amount":0},"allocated":{"unit":"TOKENS","amount":1000}}"#
        );
        let indebted = Figures {
            debt: 5,
            overdraft_limit: i64::MAX,
            is_over_limit: true,
            ..Figures::default()
        };
        let shown = text(indebted);
        assert!(shown.contains(r#""remaining":{"unit":"TOKENS","amount":-5}"#));
        assert!(shown.contains(r#""debt":{"unit":"TOKENS","amount":5}"#));
        assert!(
            shown.contains(r#""overdraft_limit":{"unit":"TOKENS","amount":9223372036854775807}"#)
        );
        assert!(shown.ends_with(r#""is_over_limit":true}"#));
        assert_eq!(
            Balance::new(
                &scope,
                Unit::Tokens,
                Figures {
                    spent: -1,
                    ..figures
                }
            ),
            None
        );
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
            assert!(
                refusal(query).starts_with("At least one of tenant, workspace"),
                "{query}"
            );
        }
        let query =
            BalanceQuery::parse("workspace=Prod&agent=%20&unknown=1&include_children=false")
                .unwrap();
        assert_eq!(
            query.segments.segments().collect::<Vec<_>>(),
            ["workspace:prod"]
        );
        assert_eq!((query.tenant, query.limit), (None, 50));
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
        let scope = ScopePath::parse("tenant:acme/agent:x").unwrap();
        let first = BalanceQuery::parse("agent=x&limit=1").unwrap();
        let cursor = first.next_cursor(&acme, (&scope, Unit::Credits), &secret);
        let next = |query: &str, tenant: &TenantId| {
            BalanceQuery::parse(&format!("{query}&cursor={cursor}"))
                .unwrap()
                .start(tenant, &secret)
        };
        for query in [
            "agent=x",
            "agent=X&limit=200",
            "agent=x&tenant=acme",
            "agent=x&include_children=true",
        ] {
            assert_eq!(
                next(query, &acme).unwrap(),
                Some((scope.clone(), Unit::Credits)),
                "{query}"
            );
        }
        assert!(next("agent=x", &other).is_err());
        assert!(next("agent=y", &acme).is_err());
        assert!(next("agent=x&app=a", &acme).is_err());
    }
}
