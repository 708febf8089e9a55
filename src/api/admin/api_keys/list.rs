//! `GET /v1/admin/api-keys`.

use serde::Serialize;
use utoipa::ToSchema;

use super::ApiKey;
use crate::admin::{ApiKeyPlace, ApiKeyQuery, ApiKeySort};
use crate::api::errors::ApiError;
use crate::api::query::{self, Query};
use crate::api::sort::{Last, OrderQuery, Sort, SortKey};
use crate::domain::api_key::permission::ApiKeyStatus;
use crate::domain::ids::DeploymentSecret;

/// A page of API keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ApiKeyListResponse {
    /// The keys, without their secrets.
    pub keys: Vec<ApiKey>,
    /// Leads to the next page. Absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
    /// Whether there is a next page.
    #[schema(required = false)]
    pub has_more: bool,
}

impl ApiKeyListResponse {
    /// With a cursor there is more; without one there is not.
    pub fn new(keys: Vec<ApiKey>, next_cursor: Option<String>) -> Self {
        Self {
            keys,
            has_more: next_cursor.is_some(),
            next_cursor,
        }
    }
}

impl SortKey for ApiKeySort {
    const DEFAULT: Self = Self::CreatedAt;
    const WORDS: &'static [&'static str] = Self::WORDS;

    fn word(self) -> &'static str {
        self.as_str()
    }

    fn read(text: &str) -> Option<Self> {
        Self::parse(text)
    }
}

/// Which API keys an operator asks for, and in which order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiKeyListQuery {
    tenant_id: Option<String>,
    status: Option<ApiKeyStatus>,
    search: Option<String>,
    limit: usize,
    order: OrderQuery<ApiKeySort>,
}

impl ApiKeyListQuery {
    const LIST: &'static str = "api-keys";

    /// Reads the query string.
    ///
    /// # Errors
    /// 400 naming the parameter.
    pub fn parse(query: &str) -> Result<Self, ApiError> {
        let query = Query::parse_admin(query);
        Ok(Self {
            tenant_id: query.get("tenant_id")?.map(str::to_owned),
            status: query.word("status", ApiKeyStatus::parse, ApiKeyStatus::WORDS)?,
            search: query
                .text("search", query::SEARCH_CHARS_MAX)?
                .map(|text| text.trim().to_owned()),
            limit: query::admin_page_limit(&query)?,
            order: OrderQuery::parse(&query)?,
        })
    }

    /// What is asked for, and its order.
    ///
    /// # Errors
    /// 400 when the cursor was not made for this query.
    pub fn asked(
        &self,
        secret: &DeploymentSecret,
    ) -> Result<(ApiKeyQuery, Sort<ApiKeySort>), ApiError> {
        let start = self.order.start(Self::LIST, &self.bound(), secret)?;
        let query = ApiKeyQuery {
            tenant_id: self.tenant_id.clone(),
            status: self.status,
            search: self.search.clone(),
            sort: start.sort.by,
            descending: start.sort.descending,
            after: start.after.map(|last| ApiKeyPlace {
                value: last.value,
                id: last.id,
            }),
            limit: self.limit,
        };
        Ok((query, start.sort))
    }

    /// The cursor of the page after a place.
    pub fn next_cursor(
        &self,
        sort: Sort<ApiKeySort>,
        place: ApiKeyPlace,
        secret: &DeploymentSecret,
    ) -> String {
        let last = Last {
            value: place.value,
            id: place.id,
        };
        sort.cursor_after(last, Self::LIST, &self.bound(), secret)
    }

    fn bound(&self) -> Vec<(&'static str, String)> {
        let status = self.status.map(ApiKeyStatus::as_str).unwrap_or_default();
        vec![
            ("tenant_id", self.tenant_id.clone().unwrap_or_default()),
            ("status", status.to_owned()),
            ("search", self.search.clone().unwrap_or_default()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_parameter_is_named_with_what_is_allowed() {
        let parse = |query: &str| ApiKeyListQuery::parse(query);
        assert_eq!(parse("limit=2000").expect("clamped").limit, 100);
        for (query, message) in [
            (
                "status=expired",
                "Invalid value for parameter 'status': expired; allowed: ACTIVE, REVOKED, EXPIRED",
            ),
            (
                "sort_by=last_used_at",
                "Invalid value for parameter 'sort_by': last_used_at; \
                 allowed: key_id, name, tenant_id, status, created_at, expires_at",
            ),
        ] {
            assert_eq!(parse(query).expect_err(query).message(), message);
        }
        assert!(parse(&format!("search={}", "s".repeat(129))).is_err());
    }
}
