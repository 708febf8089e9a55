//! Lists of policies: `GET /v1/admin/policies`.

use serde::Serialize;
use utoipa::ToSchema;

use super::Policy;
use crate::api::cursor::{Cursor, CursorError, Last};
use crate::api::errors::ApiError;
use crate::api::query::{self, Query};
use crate::domain::ids::DeploymentSecret;
use crate::domain::policy::PolicyStatus;
use crate::domain::scope::SCOPE_CHARS_MAX;

/// A page of policies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PolicyListResponse {
    /// The policies, in the order of their ids.
    pub policies: Vec<Policy>,
    /// Leads to the next page. Absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
    /// Whether there is a next page.
    #[schema(required = false)]
    pub has_more: bool,
}

/// Which policies are asked for. `has_action_quotas` and `references_action_kind` are without effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyListQuery {
    /// As it was sent.
    pub tenant_id: Option<String>,
    /// With exactly this pattern.
    pub scope_pattern: Option<String>,
    /// Of this status.
    pub status: Option<PolicyStatus>,
    /// Most rows on the page.
    pub limit: usize,
    cursor: Option<String>,
}

impl PolicyListQuery {
    /// Reads the query string.
    ///
    /// # Errors
    /// 400 naming the parameter.
    pub fn parse(query: &str) -> Result<Self, ApiError> {
        let query = Query::parse_admin(query);
        Ok(Self {
            tenant_id: query.get("tenant_id")?.map(str::to_owned),
            scope_pattern: query.text("scope_pattern", SCOPE_CHARS_MAX)?,
            status: query.word("status", PolicyStatus::parse, PolicyStatus::WORDS)?,
            limit: query::admin_page_limit(&query)?,
            cursor: query.get("cursor")?.map(str::to_owned),
        })
    }

    /// The id after which the page starts. `tenant`: whose policies are listed.
    ///
    /// # Errors
    /// 400 when the cursor was not made for this list, these filters and this tenant.
    pub fn after(
        &self,
        tenant: &str,
        secret: &DeploymentSecret,
    ) -> Result<Option<String>, CursorError> {
        let open = |text| Cursor::open(text, "policies", &self.filters(tenant), secret);
        let cursor = self.cursor.as_deref().map(open).transpose()?;
        Ok(cursor.map(|cursor| cursor.last.id))
    }

    /// The cursor of the page after an id.
    pub fn cursor_after(&self, id: String, tenant: &str, secret: &DeploymentSecret) -> String {
        let (sort, descending) = ("policy_id".to_owned(), false);
        let last = Last {
            value: id.clone(),
            id,
        };
        Cursor {
            sort,
            descending,
            last,
        }
        .seal("policies", &self.filters(tenant), secret)
    }

    fn filters(&self, tenant: &str) -> [(&'static str, String); 3] {
        let pattern = self.scope_pattern.clone().unwrap_or_default();
        let status = self.status.map_or("", PolicyStatus::as_str);
        [
            ("tenant", tenant.to_owned()),
            ("scope_pattern", pattern),
            ("status", status.to_owned()),
        ]
    }
}
