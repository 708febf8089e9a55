//! Changes a policy.

use crate::api::admin::extract::{Change, ChangeBody, PathId};
use crate::api::admin::refusals::{ErrorContext, error_of};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;
use crate::domain::policy::{Policy, PolicyUpdateRequest};

pub(in crate::api) const DECLARATION: Declaration =
    declare!(update_policy, "Changes a policy from the next request on")
        .takes_change::<PolicyUpdateRequest>()
        .returns::<Policy>(200, "The policy as it is now.")
        .refuses(&[404, 409]);

impl ChangeBody for PolicyUpdateRequest {}

async fn update_policy(change: Change<PolicyUpdateRequest, PathId>) -> Returns<Policy> {
    let (caller, PathId(policy_id), update) = (&change.caller, &change.target, &change.body);
    let context = ErrorContext {
        policy: policy_id,
        ..ErrorContext::default()
    };
    let tenant = match caller {
        Caller::Tenant(caller) => Some(caller.tenant.clone()),
        Caller::Admin(_) => {
            let found = change.state.admin.owner_of_policy(policy_id).await;
            found.map_err(|error| error_of(error, &context))?
        }
    };
    let updated = change
        .state
        .admin
        .update_policy(
            caller,
            policy_id,
            tenant.as_ref(),
            update,
            &change.request(),
        )
        .await;
    let context = ErrorContext {
        tenant: tenant.as_ref().map_or("", TenantId::as_str),
        name: update.name.as_deref().unwrap_or_default(),
        ..context
    };
    let updated = updated.map_err(|error| error_of(error, &context).about(tenant.clone()))?;
    Ok(CheckedJson::ok(updated))
}
