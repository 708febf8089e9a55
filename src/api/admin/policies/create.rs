//! Creates a policy.

use crate::api::admin::extract::{Change, ChangeBody};
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::domain::fields::Problems;
use crate::domain::policy::{Policy, PolicyCreateRequest, ScopePattern};

pub(in crate::api) const DECLARATION: Declaration = declare!(
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
