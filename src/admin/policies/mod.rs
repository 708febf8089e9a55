//! Policies: made, listed, changed; by a tenant's key within its tenant, by the admin key for any.

mod members;

pub use members::{NewPolicy, PolicyChanges};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use tracing::error;

use super::audit::entry;
use super::budgets::push_actor_type;
use super::{Admin, AdminError, Parts, Request, refuse};
use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;
use crate::domain::policy::{Policy, PolicyId, PolicyStatus};
use crate::domain::refusal::admin::AdminRefusal;
use crate::store::ExtraTrip;
use crate::store::admin::policies::{PolicyCreation, PolicyRecord};
use members::{field_changes, fields, push_changes};

/// Two random ids of 62 bits that are taken already are one too many.
const DRAWS_MAX: usize = 2;
/// Policies that one page looks at; with a sparse filter it may be short, and its cursor goes on.
const PAGE_ROWS_MAX: usize = 5_000;

/// Policies that one look brings at least, if there are as many: a key's own scopes may leave few of them.
const STEP_ROWS_MIN: usize = 20;

/// Policies that are asked for.
#[derive(Debug, Clone)]
pub struct PolicyQuery {
    /// As it was sent: for the admin key alone, ignored from a tenant's.
    pub tenant_id: Option<String>,
    /// With exactly this pattern, whatever the case.
    pub scope_pattern: Option<String>,
    /// Of this status.
    pub status: Option<PolicyStatus>,
    /// The id where the last page ended.
    pub after: Option<String>,
    /// Rows at most, at least 1.
    pub limit: usize,
}

/// A page of policies.
#[derive(Debug)]
pub struct PolicyPage {
    /// In the order of their ids.
    pub policies: Vec<Policy>,
    /// Behind which id the next page starts, when there may be one.
    pub next: Option<String>,
}

impl Admin {
    /// Makes a policy. The very next request on any replica is under it.
    ///
    /// # Errors
    /// Refusals, in this order: of the key and its scopes; a `tenant_id` that is missing or must not be there; a pattern
    /// of another tenant; tenant closed, unknown or suspended; a name that is used.
    pub async fn create_policy(
        &self,
        caller: &Caller,
        new: &NewPolicy,
        request: &Request<'_>,
    ) -> Result<Policy, AdminError> {
        let tenant = match creation_tenant(caller, new) {
            Ok(tenant) => tenant,
            Err(refusal) => {
                self.check_pattern(caller, new.scope_pattern.as_str())
                    .await?;
                return refuse(refusal);
            }
        };
        let fields = fields(new);
        for _ in 0..DRAWS_MAX {
            let policy_id = PolicyId::generate(tenant.partition());
            let mut audit = entry(request.cause, "createPolicy", "policy", policy_id.as_str());
            audit.extend([
                ("status", "201".to_owned()),
                ("metadata.name", new.name.clone()),
                ("metadata.scope_pattern", new.scope_pattern.to_string()),
            ]);
            push_actor_type(&mut audit, caller);
            let parts = Parts::of(request, "createPolicy", audit);
            let record = PolicyRecord {
                policy_id: &policy_id,
                tenant: &tenant,
                name: &new.name,
                scope_pattern: &new.scope_pattern,
                fields: &fields,
            };
            let created = self
                .store
                .create_policy(caller, &record, &version(), &parts.change())
                .await?;
            if let PolicyCreation::Created(record) = created {
                return Ok(Policy::from_record(&record)?);
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
        changes: &PolicyChanges,
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
        push_changes(&mut audit, changes);
        push_actor_type(&mut audit, caller);
        let parts = Parts::of(request, "updatePolicy", audit);
        let record = self
            .store
            .update_policy(
                caller,
                &parsed,
                &tenant,
                &field_changes(changes),
                &version(),
                &parts.change(),
            )
            .await?;
        Ok(Policy::from_record(&record)?)
    }

    /// A page of one tenant's policies that the key may see.
    ///
    /// # Errors
    /// Refusals: of the key and its scopes; a `tenant_id` that is missing.
    pub async fn list_policies(
        &self,
        caller: &Caller,
        query: &PolicyQuery,
    ) -> Result<PolicyPage, AdminError> {
        let mut page = PolicyPage {
            policies: Vec::new(),
            next: None,
        };
        let tenant = match (caller, query.tenant_id.as_deref()) {
            (Caller::Tenant(caller), _) => caller.tenant.clone(),
            (Caller::Admin(_), None) => return refuse(AdminRefusal::TenantIdMissing),
            (Caller::Admin(_), Some(text)) => match TenantId::parse(text) {
                Some(tenant) => tenant,
                // No tenant has such an id, so it owns no policy.
                None => return Ok(page),
            },
        };
        let pattern = query.scope_pattern.as_ref();
        let pattern = pattern.map(|pattern| pattern.to_ascii_lowercase());
        // Without filters a page is one look; with them it may take many.
        let filtered = pattern.is_some() || query.status.is_some();
        let rows_max = if filtered {
            usize::MAX
        } else {
            query.limit.max(STEP_ROWS_MIN) + 1
        };
        let (mut after, mut examined) = (query.after.clone(), 0);
        loop {
            let rows = self
                .store
                .list_policies(
                    caller,
                    &tenant,
                    pattern.as_deref(),
                    after.as_deref(),
                    rows_max,
                )
                .await?;
            examined += rows.records.len();
            for record in &rows.records {
                let policy = match Policy::from_record(record) {
                    Ok(policy) => policy,
                    Err(damage) => {
                        // One damaged record must not take a tenant's whole list away.
                        let id = record.get("policy_id").unwrap_or_default();
                        error!(
                            policy.id = id,
                            error = %damage,
                            "the policy `{id}` is left out of a list: {damage}"
                        );
                        continue;
                    }
                };
                let own = &policy.scope_pattern;
                let shown = rows.scope_filter.admits_any(own.segments())
                    && query.status.is_none_or(|status| status == policy.status)
                    && pattern
                        .as_deref()
                        .is_none_or(|pattern| pattern == own.as_str());
                if !shown {
                    continue;
                }
                if page.policies.len() == query.limit {
                    let last = page.policies.last();
                    page.next = last.map(|policy| policy.policy_id.to_string());
                    return Ok(page);
                }
                page.policies.push(policy);
            }
            if rows.complete {
                return Ok(page);
            }
            if examined >= PAGE_ROWS_MAX {
                page.next = Some(rows.last);
                return Ok(page);
            }
            after = Some(rows.last);
        }
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
fn creation_tenant(caller: &Caller, new: &NewPolicy) -> Result<TenantId, AdminRefusal> {
    let text = match (caller, new.tenant_id.as_deref()) {
        (Caller::Tenant(_), Some(_)) => return Err(AdminRefusal::TenantIdPresent),
        (Caller::Tenant(caller), None) => caller.tenant.as_str(),
        (Caller::Admin(_), Some(text)) if !text.trim().is_empty() => text,
        (Caller::Admin(_), _) => return Err(AdminRefusal::TenantIdMissing),
    };
    if new.scope_pattern.tenant_as_sent() != text {
        return Err(AdminRefusal::PatternOfOtherTenant);
    }
    TenantId::parse(text).ok_or(AdminRefusal::OwnerNotFound)
}

/// 96 random bits. A counter could repeat after a failover, with other policies.
fn version() -> String {
    BASE64_URL_SAFE_NO_PAD.encode(rand::random::<[u8; 12]>())
}
