//! Lists the policies of a tenant.

use axum::extract::State;

use crate::admin::PolicyFilter;
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::admin::{target_tenant, target_tenant_as_sent};
use crate::api::errors::ApiError;
use crate::api::extract::RawQuery;
use crate::api::list::{List, ListRequest, Parameters, list_response, parameters};
use crate::api::operation::parameters::text;
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::api::state::AppState;
use crate::domain::caller::Caller;
use crate::domain::policy::Policy;
use crate::domain::scope::SCOPE_CHARS_MAX;
use crate::listing::OneOrder;

list_response! {
    /// A page of policies.
    PolicyListResponse: Open {
        /// The policies, in the order of their ids.
        policies: Policy,
        has_more { required: false }
    }
}

/// The list of a tenant's policies. Its cursors are bound to the tenant besides.
#[derive(Debug)]
pub struct Policies;

impl List for Policies {
    const NAME: &'static str = "policies";
    const SORTABLE: bool = false;
    type Filter = PolicyFilter;
    type Sort = OneOrder;

    fn filter(parameters: &mut Parameters<'_>) -> Result<PolicyFilter, ApiError> {
        let about = "The owner. Required with the admin key; without effect with an API key.";
        let tenant_id = parameters.unbound_text("tenant_id", about)?;
        let about = "The pattern of the policies, exactly, whatever the case.";
        let fits = |text: &&str| text.chars().count() <= SCOPE_CHARS_MAX;
        let read = |text: &str| Some(text).filter(fits).map(str::to_owned);
        let wanted = format!("it must be at most {SCOPE_CHARS_MAX} characters long");
        let (schema, wanted) = (text, (read, wanted.as_str()));
        let scope_pattern =
            parameters.parsed("scope_pattern", about, schema, wanted, String::clone)?;
        let status = parameters.word("status", "The status of the policies.")?;
        parameters.ignored(
            "has_action_quotas",
            || serde_json::json!({"type": "boolean"}),
        );
        let kind = || serde_json::json!({"type": "string", "maxLength": 64});
        parameters.ignored("references_action_kind", kind);
        Ok(PolicyFilter {
            tenant_id,
            scope_pattern,
            status,
        })
    }
}

pub(in crate::api) const DECLARATION: Declaration =
    declare!(list_policies, "Lists the policies of a tenant")
        .query(parameters::<Policies>)
        .returns::<PolicyListResponse>(200, "A page of policies.");

async fn list_policies(
    State(state): State<AppState>,
    caller: Caller,
    RawQuery(query): RawQuery,
) -> Returns<PolicyListResponse> {
    let mut list = ListRequest::<Policies>::parse(&query)?;
    let named = list.filter.tenant_id.clone();
    list.bind("tenant", target_tenant_as_sent(&caller, named.as_deref()));
    let secret = state.store.secret().await?;
    let page = state
        .admin
        .list_policies(&caller, &list.query(secret)?)
        .await;
    let tenant = target_tenant(&caller, named.as_deref());
    let page = page.map_err(|error| error_of(error, &ErrorContext::default()).about(tenant))?;
    let next = list.next_cursor(&page, secret);
    let response = PolicyListResponse::new(page.rows, next);
    Ok(CheckedJson::ok(response))
}
