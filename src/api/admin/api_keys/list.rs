//! Lists API keys.

use axum::extract::State;

use crate::admin::{ApiKeyFilter, ApiKeySort};
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::errors::ApiError;
use crate::api::extract::RawQuery;
use crate::api::list::{List, ListRequest, Parameters, list_response, parameters};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::api_key::ApiKey;

list_response! {
    /// A page of API keys.
    ApiKeyListResponse: Open {
        /// The keys, without their secrets.
        keys: ApiKey,
        has_more { required: false }
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

pub(in crate::api) const DECLARATION: Declaration =
    declare!(list_api_keys, "Lists API keys, of one tenant or of all")
        .query(parameters::<ApiKeys>)
        .returns::<ApiKeyListResponse>(200, "A page of API keys.");

async fn list_api_keys(
    State(state): State<AppState>,
    RawQuery(query): RawQuery,
) -> Returns<ApiKeyListResponse> {
    let list = ListRequest::<ApiKeys>::parse(&query)?;
    let secret = state.store.secret().await?;
    let page = state.admin.list_api_keys(&list.query(secret)?).await;
    let page = page.map_err(|error| error_of(error, &ErrorContext::default()))?;
    let next = list.next_cursor(&page, secret);
    Ok(CheckedJson::ok(ApiKeyListResponse::new(page.rows, next)))
}

#[cfg(test)]
mod tests {
    use super::*;
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
