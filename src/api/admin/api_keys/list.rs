//! The list of API keys: `GET /v1/admin/api-keys`.

use super::ApiKey;
use crate::admin::{ApiKeyFilter, ApiKeySort};
use crate::api::errors::ApiError;
use crate::api::list::{List, Parameters, list_response};

list_response! {
    /// A page of API keys.
    ApiKeyListResponse {
        /// The keys, without their secrets.
        keys: ApiKey,
        #[schema(required = false)]
        has_more,
    }
}

/// The list of API keys.
#[derive(Debug)]
pub struct ApiKeys;

impl List for ApiKeys {
    const NAME: &'static str = "api-keys";
    type Filter = ApiKeyFilter;
    type Sort = ApiKeySort;

    fn filter(parameters: &mut Parameters<'_>) -> Result<ApiKeyFilter, ApiError> {
        Ok(ApiKeyFilter {
            tenant_id: parameters.text("tenant_id", "The owner. Absent: keys of all tenants.")?,
            status: parameters.word("status", "The status of the keys, by the present clock.")?,
            search: parameters.search("What id or name must contain, whatever the case.")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::list::ListRequest;
    use crate::domain::ids::DeploymentSecret;

    #[test]
    fn a_wrong_parameter_is_named_with_what_is_allowed() {
        let parse = |query: &str| {
            let query = ListRequest::<ApiKeys>::parse(query)?;
            query.query(&DeploymentSecret::generate())
        };
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
