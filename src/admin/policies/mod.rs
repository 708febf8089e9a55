//! Policies: create, list and change them; with a tenant's key those of its tenant, with the admin key any.

mod list;

pub use list::{PolicyFilter, PolicyQuery};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use super::{Admin, Change, Request, refuse};
use crate::domain::caller::Caller;
use crate::domain::fields::{Patch, Read as _};
use crate::domain::ids::TenantId;
use crate::domain::policy::{
    Policy, PolicyCreateRequest, PolicyId, PolicyUpdateRequest, ScopePattern,
};
use crate::domain::record::set_fields;
use crate::domain::refusal::{PolicyRefusal, Refusal};
use crate::domain::scope::tenant_as_sent;
use crate::store::admin::policies::{
    CreatePolicy, CreatePolicyReply, UpdatePolicy, UpdatePolicyReply,
};
use crate::store::admin::{Pairs, changes_of};
use crate::store::signature::{Counted, Refused};
use crate::store::target::{Creation, Target};
use crate::store::{ExtraRoundTrip, StoreError};

/// A policy of a tenant.
pub(super) struct PolicyTarget<'a> {
    pub(super) tenant: &'a TenantId,
    pub(super) policy_id: PolicyId,
    /// The name that it is to have.
    pub(super) name: Option<&'a str>,
}

impl Target for PolicyTarget<'_> {
    fn tenant(&self) -> Option<&TenantId> {
        Some(self.tenant)
    }

    fn refusal(&self, refused: &Refused) -> Option<Refusal> {
        use PolicyRefusal as R;
        let refusal = match refused {
            Refused::PolicyNotFound => R::NotFound(self.policy_id.to_string()),
            Refused::TemplatesBelow => R::TemplatesBelow,
            Refused::ForeignPolicy => R::OfOtherTenant(self.policy_id.to_string()),
            Refused::DuplicatePolicy => R::Duplicate {
                tenant: self.tenant.clone(),
                name: self.name.unwrap_or_default().to_owned(),
            },
            _ => return None,
        };
        Some(refusal.into())
    }
}

impl Admin {
    /// Makes a policy. The very next request on any replica is under it.
    ///
    /// # Errors
    /// Refusals, in this order: of the key and its scopes; a `tenant_id` that is missing or must not be there; a pattern
    /// of another tenant; tenant closed, unknown or suspended; a name that is used; as many policies as
    /// the tenant may have.
    pub async fn create_policy(
        &self,
        caller: &Caller,
        new: &PolicyCreateRequest,
        scope_pattern: &ScopePattern,
        request: &Request<'_>,
    ) -> Result<Policy, StoreError> {
        let requested = tenant_as_sent(&new.scope_pattern).unwrap_or_default();
        let requested = ("scope_pattern", scope_pattern.as_str(), requested);
        let tenant = new.tenant_id.as_deref();
        let tenant = self.tenant_of_new(caller, "policies:write", tenant, requested);
        let tenant = tenant.await?;
        let target = PolicyTarget {
            tenant: &tenant,
            policy_id: PolicyId::mint(tenant.partition()),
            name: Some(&new.name),
        };
        let policy_id = target.policy_id.as_str();
        let mut change = Change::new(request, "createPolicy", ("policy", policy_id), Some(201));
        change.add("metadata.name", Some(&new.name));
        change.add("metadata.scope_pattern", Some(scope_pattern));
        let templates = new.budget_templates.as_ref();
        change.add(
            "metadata.budget_templates",
            templates.map(|all| all.to_json()),
        );
        let call = CreatePolicy {
            caller: caller.into(),
            change: &change,
            tenant: &tenant,
            policy_id: &target.policy_id,
            name: &new.name,
            scope_pattern: scope_pattern.as_str(),
            version: &version(),
            limit: self.limits.policies,
            permission: permission_for(new.budget_templates.is_some()),
            fields: Counted(&set_fields(new.fields())),
        };
        let creation = Creation::new(caller.is_admin(), &target);
        target.about(match creation.run(&self.store, &call).await? {
            CreatePolicyReply::Created { record } => {
                Policy::from_record(&record.0).map_err(StoreError::from)
            }
            CreatePolicyReply::Taken => Err(StoreError::Corrupt("random policy id".to_owned())),
        })
    }

    /// Changes a policy. The very next request on any replica is under what it has become.
    ///
    /// # Errors
    /// Refusals, in this order: of the key; no such policy; one of another tenant; a scope that the key may not act on;
    /// another request under the same idempotency key; tenant closed or, for its own key, suspended; a name that is used.
    pub async fn update_policy(
        &self,
        caller: &Caller,
        policy_id: &str,
        update: &PolicyUpdateRequest,
        request: &Request<'_>,
    ) -> Result<Policy, StoreError> {
        let parsed = PolicyId::parse(policy_id);
        let owner = match (caller, &parsed) {
            (Caller::Admin(_), Some(parsed)) => {
                let (reason, owners) = (ExtraRoundTrip::Owner, &self.policy_owners);
                let look_up = || self.store.tenant_of_policy(parsed);
                self.owner_of(owners, parsed, reason, look_up).await?
            }
            (Caller::Tenant(caller), Some(parsed)) if parsed.partition() == caller.partition => {
                Some(caller.tenant.clone())
            }
            _ => None,
        };
        let Some((tenant, parsed)) = owner.as_ref().zip(parsed.clone()) else {
            return self
                .refuse_elsewhere(caller, policy_id, parsed.as_ref())
                .await;
        };
        let target = PolicyTarget {
            tenant,
            policy_id: parsed,
            name: update.name.as_deref(),
        };
        let policy_id = target.policy_id.as_str();
        let mut change = Change::new(request, "updatePolicy", ("policy", policy_id), Some(200));
        change.audit.extend(audit_fields(update));
        let call = UpdatePolicy {
            caller: caller.into(),
            change: &change,
            tenant,
            policy_id: &target.policy_id,
            sent_name: target.name,
            permission: permission_for(update.budget_templates != Patch::Keep),
            version: &version(),
            changes: changes_of(&update.fields()),
        };
        let UpdatePolicyReply::Updated { record } = target.run(&self.store, &call).await?;
        target.about(Policy::from_record(&record.0))
    }

    /// An id that names no policy, or one in another partition than the caller's: so it is foreign, or there is none.
    async fn refuse_elsewhere<T>(
        &self,
        caller: &Caller,
        sent: &str,
        policy_id: Option<&PolicyId>,
    ) -> Result<T, StoreError> {
        let checked = self.store.admin_access(caller, "policies:write", "");
        checked.await?;
        let owner = match (caller, policy_id) {
            (Caller::Tenant(_), Some(policy_id)) => {
                self.store.extra_round_trip(ExtraRoundTrip::ForeignId);
                self.store.tenant_of_policy(policy_id).await?
            }
            _ => None,
        };
        refuse(match owner {
            Some(_) => PolicyRefusal::OfOtherTenant(sent.to_owned()),
            None => PolicyRefusal::NotFound(sent.to_owned()),
        })
    }
}

/// The metadata of a change for its audit entry.
fn audit_fields(update: &PolicyUpdateRequest) -> Pairs {
    let changes = update.fields().into_iter();
    let changes = changes.filter_map(|change| match change.member {
        "name" | "priority" | "commit_overage_policy" => {
            Some((change.audited, change.value.unwrap_or_default()))
        }
        "status" => Some(("metadata.new_status", change.value?)),
        "caps" => Some(("metadata.caps_updated", "true".to_owned())),
        "budget_templates" => Some((
            change.audited,
            change.value.unwrap_or_else(|| "[]".to_owned()),
        )),
        _ => None,
    });
    changes.collect()
}

/// What a key needs besides `policies:write`, for a change that writes templates of budgets.
fn permission_for(writes_templates: bool) -> Option<&'static str> {
    writes_templates.then_some("budgets:write")
}

/// 96 random bits. A counter could repeat after a failover, with other policies.
fn version() -> String {
    BASE64_URL_SAFE_NO_PAD.encode(rand::random::<[u8; 12]>())
}
