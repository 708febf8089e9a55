//! Changes a policy.

use crate::api::admin::extract::{Change, ChangeBody, PathId};
use crate::api::operation::{Declaration, declare};
use crate::api::response::{CheckedJson, Returns};
use crate::domain::policy::{Policy, PolicyUpdateRequest};

pub(in crate::api) const DECLARATION: Declaration = declare!(
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
