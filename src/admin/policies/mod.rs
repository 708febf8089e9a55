//! Policies: create, list and change them; with a tenant's key those of its tenant, with the admin key any.

mod list;

pub use list::{PolicyFilter, PolicyQuery};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use super::audit::entry;
use super::budgets::push_actor_type;
use super::{Admin, AdminError, Parts, Request, refuse};
use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;
use crate::domain::policy::{
    Policy, PolicyCreateRequest, PolicyId, PolicyUpdateRequest, ScopePattern,
};
use crate::domain::record::set_fields;
use crate::domain::refusal::admin::AdminRefusal;
use crate::store::ExtraTrip;
use crate::store::admin::policies::{
    CreatePolicy, CreatePolicyReply, UpdatePolicy, UpdatePolicyReply,
};
use crate::store::admin::{Pairs, changes_of, creation_refused};
use crate::store::signature::Counted;

/// Two random ids of 62 bits that are taken already are one too many.
const DRAWS_MAX: usize = 2;

impl Admin {
    /// Makes a policy. The very next request on any replica is under it.
    ///
    /// # Errors
    /// Refusals, in this order: of the key and its scopes; a `tenant_id` that is missing or must not be there; a pattern
    /// of another tenant; tenant closed, unknown or suspended; a name that is used.
    pub async fn create_policy(
        &self,
        caller: &Caller,
        new: &PolicyCreateRequest,
        scope_pattern: &ScopePattern,
        request: &Request<'_>,
    ) -> Result<Policy, AdminError> {
        let tenant = match creation_tenant(caller, new, scope_pattern) {
            Ok(tenant) => tenant,
            Err(refusal) => {
                self.check_pattern(caller, scope_pattern.as_str()).await?;
                return refuse(refusal);
            }
        };
        let fields = set_fields(new.fields());
        for _ in 0..DRAWS_MAX {
            let policy_id = PolicyId::generate(tenant.partition());
            let mut audit = entry(request.cause, "createPolicy", "policy", policy_id.as_str());
            audit.extend([
                ("status", "201".to_owned()),
                ("metadata.name", new.name.clone()),
                ("metadata.scope_pattern", scope_pattern.to_string()),
            ]);
            push_actor_type(&mut audit, caller);
            let parts = Parts::of(request, "createPolicy", audit);
            let call = CreatePolicy {
                partition: tenant.partition(),
                caller: caller.into(),
                change: &parts.change(),
                tenant: tenant.as_str(),
                policy_id: policy_id.as_str(),
                name: &new.name,
                scope_pattern: scope_pattern.as_str(),
                version: &version(),
                fields: Counted(&fields),
            };
            let created = self.store.run(&call).await?;
            match created.map_err(|refused| creation_refused(caller, refused))? {
                CreatePolicyReply::Created { record } => {
                    return Ok(Policy::from_record(&record.0)?);
                }
                CreatePolicyReply::Taken => {}
            }
        }
        refuse(AdminRefusal::Corrupt("random policy ids repeat".to_owned()))
    }

    /// Whose policy an id names, for the admin key; a tenant's key acts on its own tenant's. The first use of an id on
    /// this replica costs a look-up.
    ///
    /// # Errors
    /// Only of the store.
    pub async fn owner_of_policy(&self, policy_id: &str) -> Result<Option<TenantId>, AdminError> {
        let Some(policy_id) = PolicyId::parse(policy_id) else {
            return Ok(None);
        };
        if let Some(owner) = self.policy_owners.get(&policy_id) {
            return Ok(Some(owner));
        }
        self.store.metrics().extra_trip(ExtraTrip::Owner);
        let owner = self.store.tenant_of_policy(&policy_id).await?;
        if let Some(owner) = &owner {
            self.policy_owners.insert(policy_id, owner.clone());
        }
        Ok(owner)
    }

    /// Changes a policy. The very next request on any replica is under what it has become. `owner`: as
    /// [`Self::owner_of_policy`] told it.
    ///
    /// # Errors
    /// Refusals, in this order: of the key; no such policy; one of another tenant; a scope that the key may not act on;
    /// another request under the same idempotency key; tenant closed or, for its own key, suspended; a name that is used.
    pub async fn update_policy(
        &self,
        caller: &Caller,
        policy_id: &str,
        owner: Option<&TenantId>,
        update: &PolicyUpdateRequest,
        request: &Request<'_>,
    ) -> Result<Policy, AdminError> {
        let parsed = PolicyId::parse(policy_id);
        let (tenant, parsed) = match (caller, owner, parsed) {
            (Caller::Admin(_), Some(owner), Some(parsed)) => (owner.clone(), parsed),
            (Caller::Tenant(caller), _, Some(parsed)) if parsed.partition() == caller.partition => {
                (caller.tenant.clone(), parsed)
            }
            (_, _, parsed) => return self.refuse_elsewhere(caller, parsed.as_ref()).await,
        };
        let mut audit = entry(request.cause, "updatePolicy", "policy", parsed.as_str());
        audit.push(("status", "200".to_owned()));
        audit.extend(told(update));
        push_actor_type(&mut audit, caller);
        let parts = Parts::of(request, "updatePolicy", audit);
        let changes = update.fields();
        let name = changes.iter().find(|change| change.member == "name");
        let call = UpdatePolicy {
            partition: parsed.partition(),
            caller: caller.into(),
            change: &parts.change(),
            tenant: tenant.as_str(),
            policy_id: parsed.as_str(),
            sent_name: name.and_then(|name| name.value.as_deref()),
            version: &version(),
            changes: changes_of(&changes),
        };
        let UpdatePolicyReply::Updated { record } = self.store.run(&call).await??;
        Ok(Policy::from_record(&record.0)?)
    }

    /// An id that names no policy, or one in another partition than the caller's: so it is foreign, or there is none.
    async fn refuse_elsewhere<T>(
        &self,
        caller: &Caller,
        policy_id: Option<&PolicyId>,
    ) -> Result<T, AdminError> {
        self.check_pattern(caller, "").await?;
        let owner = match (caller, policy_id) {
            (Caller::Tenant(_), Some(policy_id)) => {
                self.store.metrics().extra_trip(ExtraTrip::ForeignId);
                self.store.tenant_of_policy(policy_id).await?
            }
            _ => None,
        };
        match owner {
            Some(_) => refuse(AdminRefusal::ForeignPolicy),
            None => refuse(AdminRefusal::PolicyNotFound),
        }
    }

    /// For a request that fails before its own script: a caller who may not ask at all learns that first.
    async fn check_pattern(&self, caller: &Caller, pattern: &str) -> Result<(), AdminError> {
        match caller {
            Caller::Tenant(caller) => {
                self.store
                    .admin_access(caller, "policies:write", pattern)
                    .await
            }
            Caller::Admin(_) => Ok(()),
        }
    }
}

/// For whom a policy is made.
fn creation_tenant(
    caller: &Caller,
    new: &PolicyCreateRequest,
    scope_pattern: &ScopePattern,
) -> Result<TenantId, AdminRefusal> {
    let text = match (caller, new.tenant_id.as_deref()) {
        (Caller::Tenant(_), Some(_)) => return Err(AdminRefusal::TenantIdPresent),
        (Caller::Tenant(caller), None) => caller.tenant.as_str(),
        (Caller::Admin(_), Some(text)) if !text.trim().is_empty() => text,
        (Caller::Admin(_), _) => return Err(AdminRefusal::TenantIdMissing),
    };
    if scope_pattern.tenant_as_sent() != text {
        return Err(AdminRefusal::PatternOfOtherTenant);
    }
    TenantId::parse(text).ok_or(AdminRefusal::OwnerNotFound)
}

/// What the audit entry tells of a change.
fn told(update: &PolicyUpdateRequest) -> Pairs {
    let told = update.fields().into_iter();
    let told = told.filter_map(|change| match change.member {
        "name" | "priority" | "commit_overage_policy" => Some((change.audited, change.value?)),
        "status" => Some(("metadata.new_status", change.value?)),
        "caps" => Some(("metadata.caps_updated", "true".to_owned())),
        _ => None,
    });
    told.collect()
}

/// 96 random bits. A counter could repeat after a failover, with other policies.
fn version() -> String {
    BASE64_URL_SAFE_NO_PAD.encode(rand::random::<[u8; 12]>())
}
