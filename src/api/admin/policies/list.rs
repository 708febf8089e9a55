//! The list of policies: `GET /v1/admin/policies`.

use serde_json::json;

use super::Policy;
use crate::admin::PolicyFilter;
use crate::api::errors::ApiError;
use crate::api::list::{List, Parameters, list_response};
use crate::domain::scope::SCOPE_CHARS_MAX;
use crate::listing::OneOrder;

list_response! {
    /// A page of policies.
    PolicyListResponse {
        /// The policies, in the order of their ids.
        policies: Policy,
        #[schema(required = false)]
        has_more,
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
        let (schema, wanted) = (|| json!({"type": "string"}), (read, wanted.as_str()));
        let scope_pattern =
            parameters.parsed("scope_pattern", about, schema, wanted, String::clone)?;
        let status = parameters.word("status", "The status of the policies.")?;
        parameters.ignored("has_action_quotas", || json!({"type": "boolean"}));
        let kind = || json!({"type": "string", "maxLength": 64});
        parameters.ignored("references_action_kind", kind);
        Ok(PolicyFilter {
            tenant_id,
            scope_pattern,
            status,
        })
    }
}
