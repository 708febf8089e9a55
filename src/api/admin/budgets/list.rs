//! Lists of budgets: `GET /v1/admin/budgets`.

use serde::Serialize;
use utoipa::ToSchema;

use super::BudgetLedger;
use crate::admin::{BudgetFilter, BudgetPlace, BudgetQuery, BudgetSort};
use crate::api::errors::ApiError;
use crate::api::query::{self, Query};
use crate::api::sort::{Last, OrderQuery, Sort, SortKey};
use crate::domain::amount::Unit;
use crate::domain::budget::funding::BudgetStatus;
use crate::domain::caller::Caller;
use crate::domain::ids::DeploymentSecret;

/// A page of budgets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BudgetListResponse {
    /// The budgets.
    pub ledgers: Vec<BudgetLedger>,
    /// Leads to the next page. Absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
    /// Whether there is a next page.
    #[schema(required = false)]
    pub has_more: bool,
}

impl BudgetListResponse {
    /// With a cursor there is more; without one there is not.
    pub fn new(ledgers: Vec<BudgetLedger>, next_cursor: Option<String>) -> Self {
        Self {
            ledgers,
            has_more: next_cursor.is_some(),
            next_cursor,
        }
    }
}

impl SortKey for BudgetSort {
    const DEFAULT: Self = Self::Utilization;
    const WORDS: &'static [&'static str] = Self::WORDS;

    fn word(self) -> &'static str {
        self.as_str()
    }

    fn read(text: &str) -> Option<Self> {
        Self::parse(text)
    }
}

/// Which budgets are asked for, and in which order.
#[derive(Debug)]
pub struct BudgetListQuery {
    tenant_id: Option<String>,
    filter: BudgetFilter,
    limit: usize,
    order: OrderQuery<BudgetSort>,
    /// What a cursor is bound to besides the filters: whose budgets are listed.
    listed: String,
}

impl BudgetListQuery {
    const LIST: &'static str = "budgets";

    /// Reads the query string. A tenant's key names its tenant itself.
    ///
    /// # Errors
    /// 400 naming the parameter.
    pub fn parse(query: &str, caller: &Caller) -> Result<Self, ApiError> {
        let query = Query::parse_admin(query);
        let fraction = |name| {
            let read = |text: &str| text.parse().ok().filter(|f| (0.0..=1.0).contains(f));
            query.parsed::<f64>(name, read, "it must be a number from 0 to 1")
        };
        let filter = BudgetFilter {
            scope_prefix: query.get("scope_prefix")?.map(str::to_owned),
            unit: query.word("unit", Unit::parse, Unit::WORDS)?,
            status: query.word("status", BudgetStatus::parse, BudgetStatus::WORDS)?,
            over_limit: query.boolean("over_limit")?,
            has_debt: query.boolean("has_debt")?,
            utilization_min: fraction("utilization_min")?,
            utilization_max: fraction("utilization_max")?,
            search: query
                .text("search", query::SEARCH_CHARS_MAX)?
                .map(|text| text.trim().to_owned()),
        };
        let tenant_id = query.get("tenant_id")?.map(str::to_owned);
        let listed = match caller {
            Caller::Tenant(caller) => caller.tenant.to_string(),
            Caller::Admin(_) => tenant_id.clone().unwrap_or_default(),
        };
        let (limit, order) = (query::admin_page_limit(&query)?, OrderQuery::parse(&query)?);
        let crossed = filter.utilization_min.zip(filter.utilization_max);
        if let Some((least, most)) = crossed.filter(|(least, most)| least > most) {
            let message = format!(
                "Invalid value for parameter 'utilization_min': {least} is above utilization_max {most}"
            );
            return Err(ApiError::invalid(message));
        }
        Ok(Self {
            tenant_id,
            filter,
            limit,
            order,
            listed,
        })
    }

    /// The tenant as it was sent.
    pub fn tenant_id(&self) -> Option<&str> {
        self.tenant_id.as_deref()
    }

    /// What is asked for, and its order.
    ///
    /// # Errors
    /// 400 when the cursor was not made for this query.
    pub fn asked(&self, secret: &DeploymentSecret) -> Result<BudgetQuery, ApiError> {
        let start = self.order.start(Self::LIST, &self.bound(), secret)?;
        Ok(BudgetQuery {
            tenant_id: self.tenant_id.clone(),
            filter: self.filter.clone(),
            sort: start.sort.by,
            descending: start.sort.descending,
            any_order: self.order.leaves_key_open(),
            after: start.after.map(|last| BudgetPlace {
                value: last.value,
                id: last.id,
            }),
            limit: self.limit,
        })
    }

    /// The cursor of the page after a place, in the order that the page stood in.
    pub fn next_cursor(
        &self,
        by: BudgetSort,
        descending: bool,
        place: BudgetPlace,
        secret: &DeploymentSecret,
    ) -> String {
        let last = Last {
            value: place.value,
            id: place.id,
        };
        Sort { by, descending }.cursor_after(last, Self::LIST, &self.bound(), secret)
    }

    fn bound(&self) -> Vec<(&'static str, String)> {
        let filter = &self.filter;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let flag = |flag: Option<bool>| flag.map(|flag| flag.to_string()).unwrap_or_default();
        let number = |number: Option<f64>| number.map(|n| n.to_string()).unwrap_or_default();
        vec![
            ("tenant", self.listed.clone()),
            ("scope_prefix", text(&filter.scope_prefix)),
            ("unit", filter.unit.map_or("", Unit::as_str).to_owned()),
            (
                "status",
                filter.status.map_or("", BudgetStatus::as_str).to_owned(),
            ),
            ("over_limit", flag(filter.over_limit)),
            ("has_debt", flag(filter.has_debt)),
            ("utilization_min", number(filter.utilization_min)),
            ("utilization_max", number(filter.utilization_max)),
            ("search", text(&filter.search)),
        ]
    }
}
