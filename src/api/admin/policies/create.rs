//! Creates a policy.

use crate::api::admin::extract::{Change, ChangeBody};
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::admin::target_tenant;
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::domain::fields::Problems;
use crate::domain::ids::TenantId;
use crate::domain::policy::{Policy, PolicyCreateRequest, ScopePattern};

pub(in crate::api) const DECLARATION: Declaration = declare!(
    create_policy,
    "Creates a policy, which counts from the next request on"
)
.takes_change::<PolicyCreateRequest>()
.returns::<Policy>(201, "The new policy.")
.refuses(&[409]);

impl ChangeBody for PolicyCreateRequest {}

async fn create_policy(change: Change<PolicyCreateRequest>) -> Returns<Policy> {
    let (caller, new) = (&change.caller, &change.body);
    let scope_pattern = read_pattern(&new.scope_pattern)?;
    let tenant = target_tenant(caller, new.tenant_id.as_deref());
    let named = new.tenant_id.as_deref().unwrap_or_default();
    let context = ErrorContext {
        tenant: tenant.as_ref().map_or(named, TenantId::as_str),
        scope: scope_pattern.as_str(),
        name: &new.name,
        ..ErrorContext::default()
    };
    let created = change
        .state
        .admin
        .create_policy(caller, new, &scope_pattern, &change.request())
        .await;
    let created = created.map_err(|error| error_of(error, &context).about(tenant.clone()))?;
    Ok(CheckedJson::created(created))
}

/// The pattern, read by its grammar.
///
/// # Errors
/// 400 naming the segment at fault.
fn read_pattern(text: &str) -> Result<ScopePattern, ApiError> {
    let pattern = ScopePattern::parse(text);
    pattern.map_err(|error| Problems::one("scope_pattern", error.to_string()).into())
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
