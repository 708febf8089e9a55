//! Lists tenants.

use axum::extract::State;

use crate::admin::{TenantFilter, TenantSort};
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::errors::ApiError;
use crate::api::extract::RawQuery;
use crate::api::list::{List, ListRequest, Parameters, list_response, parameters};
use crate::api::operation::parameters::text;
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::tenant::record::Tenant;

list_response! {
    /// A page of tenants.
    TenantListResponse: Open {
        /// The tenants.
        tenants: Tenant,
        has_more { required: false }
    }
}

/// The list of tenants.
#[derive(Debug)]
pub struct Tenants;

impl List for Tenants {
    const NAME: &'static str = "tenants";
    type Filter = TenantFilter;
    type Sort = TenantSort;

    fn filter(parameters: &mut Parameters<'_>) -> Result<TenantFilter, ApiError> {
        let status = parameters.word("status", "The status of the tenants.")?;
        let about = "The parent of the tenants, exactly.";
        let parent_tenant_id = parameters.text("parent_tenant_id", about)?;
        parameters.ignored("observe_mode", text);
        let about = "What id or name must contain, whatever the case.";
        Ok(TenantFilter {
            status,
            parent_tenant_id,
            search: parameters.search(about)?,
        })
    }
}

pub(in crate::api) const DECLARATION: Declaration = declare!(list_tenants, "Lists tenants")
    .query(parameters::<Tenants>)
    .returns::<TenantListResponse>(200, "A page of tenants.");

async fn list_tenants(
    State(state): State<AppState>,
    RawQuery(query): RawQuery,
) -> Returns<TenantListResponse> {
    let list = ListRequest::<Tenants>::parse(&query)?;
    let secret = state.store.secret().await?;
    let page = state.admin.list_tenants(&list.query(secret)?).await;
    let page = page.map_err(|error| error_of(error, &ErrorContext::default()))?;
    let next = list.next_cursor(&page, secret);
    let response = TenantListResponse::new(page.rows, next);
    Ok(CheckedJson::ok(response))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::DeploymentSecret;

    #[test]
    fn lists_clamp_their_limit_and_name_wrong_parameters() {
        let parse = |query: &str| {
            let query = ListRequest::<Tenants>::parse(query)?;
            query.query(&DeploymentSecret::generate())
        };
        assert_eq!(parse("limit=1000").unwrap().limit, 100);
        assert_eq!(parse("limit=-5").unwrap().limit, 1);
        let searched = parse("observe_mode=x&search=%20a%20").unwrap();
        let search = searched.filter.search.expect("a search");
        assert_eq!(search.as_str(), "a");
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
