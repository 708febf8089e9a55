//! Lists API keys.

use crate::admin::{ApiKeyFilter, ApiKeySort};
use crate::api::errors::ApiError;
use crate::api::list::{List, ListCall, Parameters, ReturnsPage, list, list_response};
use crate::api::operation::Declaration;
use crate::domain::api_key::ApiKey;

list_response! {
    /// A page of API keys.
    ApiKeyListResponse: Open {
        /// The keys, without their secrets.
        keys: ApiKey,
        has_more { required: false }
    }
}

struct ApiKeys;

impl List for ApiKeys {
    const NAME: &'static str = "api-keys";
    type Filter = ApiKeyFilter;
    type Sort = ApiKeySort;
    type Response = ApiKeyListResponse;

    fn filter(parameters: &mut Parameters<'_>) -> Result<ApiKeyFilter, ApiError> {
        Ok(ApiKeyFilter {
            tenant_id: parameters.text(
                "tenant_id",
                "Tenant that owns the keys. Absent: keys of all tenants.",
            )?,
            status: parameters.word("status", "The status of the keys, by the present clock.")?,
            search: parameters.search("Text that id or name must contain, in any case.")?,
        })
    }

    async fn page(call: &mut ListCall<Self>) -> ReturnsPage<Self> {
        Ok(call.state.admin.list_api_keys(&call.query().await?).await?)
    }
}

pub(in crate::api) const DECLARATION: Declaration = list::<ApiKeys>(
    "Lists API keys, of one tenant or of all",
    "A page of API keys.",
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::list::query_of;

    #[test]
    fn a_wrong_parameter_is_named_with_what_is_allowed() {
        let parse = query_of::<ApiKeys>;
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
