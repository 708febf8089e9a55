//! Lists of tenants: `GET /v1/admin/tenants`.

use serde::Serialize;
use utoipa::ToSchema;

use super::Tenant;
use crate::api::errors::ApiError;
use crate::api::query::{self, Query};
use crate::api::sort::{Last, OrderQuery, Sort, SortKey, Start};
use crate::domain::ids::DeploymentSecret;
use crate::domain::tenant::TenantStatus;
use crate::domain::words::words;

/// A page of tenants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct TenantListResponse {
    /// The tenants.
    pub tenants: Vec<Tenant>,
    /// Leads to the next page. Absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
    /// Whether there is a next page.
    #[schema(required = false)]
    pub has_more: bool,
}

impl TenantListResponse {
    /// With a cursor there is more; without one there is not.
    pub fn new(tenants: Vec<Tenant>, next_cursor: Option<String>) -> Self {
        Self {
            tenants,
            has_more: next_cursor.is_some(),
            next_cursor,
        }
    }
}

words! {
    /// What a list of tenants can be sorted by.
    TenantSort {
        /// The id.
        TenantId = "tenant_id",
        /// The name.
        Name = "name",
        /// The status.
        Status = "status",
        /// The time at which it was made.
        CreatedAt = "created_at",
    }
}

impl SortKey for TenantSort {
    const DEFAULT: Self = Self::CreatedAt;
    const WORDS: &'static [&'static str] = Self::WORDS;

    fn word(self) -> &'static str {
        self.as_str()
    }

    fn read(text: &str) -> Option<Self> {
        Self::parse(text)
    }
}

/// Which tenants an operator asks for, and in which order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantListQuery {
    /// Whether they may act.
    pub status: Option<TenantStatus>,
    /// Their parent, exactly.
    pub parent_tenant_id: Option<String>,
    /// What id or name must contain, whatever the case; trimmed.
    pub search: Option<String>,
    /// Rows on a page.
    pub limit: usize,
    order: OrderQuery<TenantSort>,
}

impl TenantListQuery {
    const LIST: &'static str = "tenants";

    /// Reads the query string.
    ///
    /// # Errors
    /// 400 naming the parameter.
    pub fn parse(query: &str) -> Result<Self, ApiError> {
        let query = Query::parse_admin(query);
        Ok(Self {
            status: query.word("status", TenantStatus::parse, TenantStatus::WORDS)?,
            parent_tenant_id: query.get("parent_tenant_id")?.map(str::to_owned),
            search: query
                .text("search", query::SEARCH_CHARS_MAX)?
                .map(|text| text.trim().to_owned()),
            limit: query::admin_page_limit(&query)?,
            order: OrderQuery::parse(&query)?,
        })
    }

    /// The order, and the place after which the page starts. Equal values stand by ascending id, in either direction.
    ///
    /// # Errors
    /// 400 when the cursor was not made for this query.
    pub fn start(&self, secret: &DeploymentSecret) -> Result<Start<TenantSort>, ApiError> {
        self.order.start(Self::LIST, &self.bound(), secret)
    }

    /// Whether the request asks for no sort, so that another order may stand in.
    pub fn leaves_order_open(&self) -> bool {
        self.order.leaves_key_open()
    }

    /// The cursor of the page after a row: its value of what the list is sorted by, and its id.
    pub fn next_cursor(
        &self,
        sort: Sort<TenantSort>,
        last: Last,
        secret: &DeploymentSecret,
    ) -> String {
        sort.cursor_after(last, Self::LIST, &self.bound(), secret)
    }

    fn bound(&self) -> Vec<(&'static str, String)> {
        vec![
            (
                "status",
                self.status
                    .map(TenantStatus::as_str)
                    .unwrap_or_default()
                    .to_owned(),
            ),
            (
                "parent_tenant_id",
                self.parent_tenant_id.clone().unwrap_or_default(),
            ),
            ("search", self.search.clone().unwrap_or_default()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_clamp_their_limit_and_name_wrong_parameters() {
        let parse = |query: &str| TenantListQuery::parse(query);
        assert_eq!(parse("limit=1000").unwrap().limit, 100);
        assert_eq!(parse("limit=-5").unwrap().limit, 1);
        assert_eq!(
            parse("observe_mode=x&search=%20a%20")
                .unwrap()
                .search
                .as_deref(),
            Some("a")
        );
        for (query, message) in [
            (
                "limit=x",
                "Invalid value for parameter 'limit': x; it must be an integer",
            ),
            (
                "status=active",
                "Invalid value for parameter 'status': active; allowed: ACTIVE, SUSPENDED, CLOSED",
            ),
            (
                "sort_by=age",
                "Invalid value for parameter 'sort_by': age; allowed: tenant_id, name, status, created_at",
            ),
        ] {
            assert_eq!(parse(query).unwrap_err().message(), message);
        }
        assert!(parse(&format!("search={}", "s".repeat(129))).is_err());
    }
}
