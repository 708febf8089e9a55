//! The HTTP operations on tenants.

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::admin::tenants::closing::CloseProgress;
use crate::admin::{TenantFilter, TenantSort};
use crate::api::admin::extract::{Change, ChangeBody, PathId};
use crate::api::admin::in_progress;
use crate::api::auth::refused::AlreadyAudited;
use crate::api::errors::ApiError;
use crate::api::list::{List, ListCall, Parameters, ReturnsPage, list, list_response};
use crate::api::operation::parameters::text;
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::ids::TenantId;
use crate::domain::refusal::TenantRefusal;
use crate::domain::tenant::{Tenant, TenantCreateRequest, TenantUpdateRequest};
use crate::store::StoreError;

pub(in crate::api) const CREATE: Declaration = declare!(create_tenant, "Creates a tenant")
    .takes_change::<TenantCreateRequest>()
    .returns::<Tenant>(200, "The tenant, if one of this id and name existed.")
    .returns::<Tenant>(201, "The new tenant.")
    .refuses(&[409]);

impl ChangeBody for TenantCreateRequest {}

async fn create_tenant(change: Change<TenantCreateRequest>) -> Returns<Tenant> {
    let (admin, request) = (&change.state.admin, change.request());
    let (is_new, tenant) = admin.create_tenant(&change.body, &request).await?;
    let status = match is_new {
        true => StatusCode::CREATED,
        false => StatusCode::OK,
    };
    Ok(CheckedJson(status, tenant))
}

pub(in crate::api) const GET: Declaration = declare!(get_tenant, "Gets a tenant")
    .returns::<Tenant>(200, "The tenant.")
    .refuses(&[404]);

async fn get_tenant(State(state): State<AppState>, PathId(id): PathId) -> Returns<Tenant> {
    let tenant = state.admin.get_tenant(&named_tenant(&id)?).await?;
    Ok(CheckedJson::ok(tenant))
}

pub(in crate::api) const UPDATE: Declaration =
    declare!(update_tenant, "Changes, suspends or closes a tenant")
        .takes_change::<TenantUpdateRequest>()
        .returns::<Tenant>(200, "The tenant as it is now.")
        .refuses(&[404, 409]);

impl ChangeBody for TenantUpdateRequest {}

async fn update_tenant(change: Change<TenantUpdateRequest, PathId>) -> Result<Response, ApiError> {
    let tenant = named_tenant(&change.target.0)?;
    let (admin, request) = (&change.state.admin, change.request());
    let updated = admin.update_tenant(&tenant, &change.body, &request).await?;
    let response = CheckedJson::ok(updated.tenant);
    match updated.close {
        None | Some(CloseProgress::Closed) => Ok(response.into_response()),
        Some(CloseProgress::Paused | CloseProgress::Fenced) => {
            Ok((in_progress(&change.state), response).into_response())
        }
        Some(CloseProgress::Incomplete { failed, .. }) => {
            let error = ApiError::internal(format!(
                "the tenant is closed, but not: {}",
                failed.join(", ")
            ));
            let error = error.with_details(json!({"failed_resources": failed}));
            Ok((Extension(AlreadyAudited), error.about(Some(tenant))).into_response())
        }
    }
}

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

pub(in crate::api) const LIST: Declaration = list::<Tenants>("Lists tenants", "A page of tenants.");

/// The tenant that a request names. What is no id names none.
pub(super) fn named_tenant(id: &str) -> Result<TenantId, ApiError> {
    let not_found = || StoreError::from(TenantRefusal::NotFound(id.to_owned()));
    Ok(TenantId::parse(id).ok_or_else(not_found)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::list::query_of;
    use crate::domain::rows;

    #[test]
    fn lists_clamp_their_limit_and_name_wrong_parameters() {
        let parse = query_of::<Tenants>;
        assert_eq!(parse("limit=1000").unwrap().limit, 100);
        assert_eq!(parse("limit=-5").unwrap().limit, 1);
        let searched = parse("observe_mode=x&search=%20a%20").unwrap();
        let search = searched.filter.search.expect("a search");
        assert_eq!(search.to_string(), "a");
        for (query, message) in rows(
            "limit=x => Invalid value for parameter 'limit': x; it must be an integer
            status=active => Invalid value for parameter 'status': active; allowed: ACTIVE, SUSPENDED, CLOSED
            sort_by=age => Invalid value for parameter 'sort_by': age; allowed: tenant_id, name, status, created_at",
        ) {
            assert_eq!(parse(query).unwrap_err().message(), message);
        }
        assert!(parse(&format!("search={}", "s".repeat(129))).is_err());
    }
}
