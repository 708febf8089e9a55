//! Lists the policies of a tenant.

use crate::admin::PolicyFilter;
use crate::api::admin::bind_tenant;
use crate::api::errors::ApiError;
use crate::api::list::{List, ListCall, Parameters, ReturnsPage, list, list_response};
use crate::api::operation::Declaration;
use crate::api::operation::parameters::text;
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

struct Policies;

impl List for Policies {
    const NAME: &'static str = "policies";
    type Filter = PolicyFilter;
    type Sort = OneOrder;
    type Response = PolicyListResponse;

    fn filter(parameters: &mut Parameters<'_>) -> Result<PolicyFilter, ApiError> {
        let about =
            "Tenant that owns them. Required with the admin key; without effect with an API key.";
        let tenant_id = parameters.unbound_text("tenant_id", about)?;
        let about = "Scope pattern, exactly, in any case.";
        let fits = |text: &&str| text.chars().count() <= SCOPE_CHARS_MAX;
        let read = |text: &str| Some(text).filter(fits).map(str::to_owned);
        let wanted = format!("it must be at most {SCOPE_CHARS_MAX} characters long");
        let (schema, wanted) = (text, (read, wanted.as_str()));
        let scope_pattern = parameters.parsed("scope_pattern", about, schema, wanted)?;
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

    async fn page(call: &mut ListCall<Self>) -> ReturnsPage<Self> {
        let named = call.list.filter.tenant_id.clone();
        let tenant = bind_tenant(call, named.as_deref());
        let (admin, query) = (&call.state.admin, call.query().await?);
        let page = admin.list_policies(&call.caller, &query).await;
        page.map_err(|error| ApiError::from(error).about(tenant))
    }
}

pub(in crate::api) const DECLARATION: Declaration =
    list::<Policies>("Lists the policies of a tenant", "A page of policies.");
