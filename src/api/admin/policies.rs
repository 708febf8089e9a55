//! The HTTP operations on policies.

use crate::admin::PolicyFilter;
use crate::api::admin::bind_tenant;
use crate::api::admin::extract::{Change, ChangeBody, PathId};
use crate::api::errors::ApiError;
use crate::api::list::{List, ListCall, Parameters, ReturnsPage, list, list_response};
use crate::api::operation::parameters::text;
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::domain::fields::Problems;
use crate::domain::policy::{Policy, PolicyCreateRequest, PolicyUpdateRequest, ScopePattern};
use crate::domain::scope::SCOPE_CHARS_MAX;
use crate::listing::OneOrder;

pub(in crate::api) const CREATE: Declaration = declare!(
    create_policy,
    "Creates a policy, which applies from the next request on"
)
.takes_change::<PolicyCreateRequest>()
.returns::<Policy>(201, "The new policy.")
.refuses(&[409]);

impl ChangeBody for PolicyCreateRequest {}

async fn create_policy(change: Change<PolicyCreateRequest>) -> Returns<Policy> {
    let (caller, new) = (&change.caller, &change.body);
    let scope_pattern = read_pattern(&new.scope_pattern)?;
    let (admin, request) = (&change.state.admin, change.request());
    let created = admin.create_policy(caller, new, &scope_pattern, &request);
    Ok(CheckedJson::created(created.await?))
}

/// The pattern, read by its grammar.
///
/// # Errors
/// 400 naming the segment at fault.
fn read_pattern(text: &str) -> Result<ScopePattern, ApiError> {
    let pattern = ScopePattern::parse(text);
    pattern.map_err(|error| Problems::one("scope_pattern", error.to_string()).into())
}

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

pub(in crate::api) const LIST: Declaration =
    list::<Policies>("Lists the policies of a tenant", "A page of policies.");

pub(in crate::api) const UPDATE: Declaration = declare!(
    update_policy,
    "Changes a policy; the change applies from the next request on"
)
.takes_change::<PolicyUpdateRequest>()
.returns::<Policy>(200, "The policy as it is now.")
.refuses(&[404, 409]);

impl ChangeBody for PolicyUpdateRequest {}

async fn update_policy(change: Change<PolicyUpdateRequest, PathId>) -> Returns<Policy> {
    let (caller, PathId(policy_id), update) = (&change.caller, &change.target, &change.body);
    let (admin, request) = (&change.state.admin, change.request());
    let updated = admin.update_policy(caller, policy_id, update, &request);
    Ok(CheckedJson::ok(updated.await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_refused_naming_the_segment() {
        let message = read_pattern("tenant:acme/*/agent:x").unwrap_err().message();
        assert!(
            message.starts_with("Validation failed: scope_pattern: segment `*`"),
            "{message}"
        );
    }
}
