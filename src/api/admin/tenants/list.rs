//! Lists tenants.

use crate::admin::{TenantFilter, TenantSort};
use crate::api::errors::ApiError;
use crate::api::list::{List, ListCall, Parameters, ReturnsPage, list, list_response};
use crate::api::operation::Declaration;
use crate::api::operation::parameters::text;
use crate::domain::tenant::record::Tenant;

list_response! {
    /// A page of tenants.
    TenantListResponse: Open {
        /// The tenants.
        tenants: Tenant,
        has_more { required: false }
    }
}

struct Tenants;

impl List for Tenants {
    const NAME: &'static str = "tenants";
    type Filter = TenantFilter;
    type Sort = TenantSort;
    type Response = TenantListResponse;

    fn filter(parameters: &mut Parameters<'_>) -> Result<TenantFilter, ApiError> {
        let status = parameters.word("status", "The status of the tenants.")?;
        let about = "Id of the parent tenant, exactly.";
        let parent_tenant_id = parameters.text("parent_tenant_id", about)?;
        parameters.ignored("observe_mode", text);
        let about = "Text that id or name must contain, in any case.";
        Ok(TenantFilter {
            status,
            parent_tenant_id,
            search: parameters.search(about)?,
        })
    }

    async fn page(call: &mut ListCall<Self>) -> ReturnsPage<Self> {
        Ok(call.state.admin.list_tenants(&call.query().await?).await?)
    }
}

pub(in crate::api) const DECLARATION: Declaration =
    list::<Tenants>("Lists tenants", "A page of tenants.");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::list::query_of;

    #[test]
    fn lists_clamp_their_limit_and_name_wrong_parameters() {
        let parse = query_of::<Tenants>;
        assert_eq!(parse("limit=1000").unwrap().limit, 100);
        assert_eq!(parse("limit=-5").unwrap().limit, 1);
        let searched = parse("observe_mode=x&search=%20a%20").unwrap();
        let search = searched.filter.search.expect("a search");
        assert_eq!(search.to_string(), "a");
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
