//! `create_policy.lua`, `update_policy.lua`, `list_policies.lua` and `load_policies.lua`.

use crate::domain::caller::ScriptCaller;
use crate::domain::ids::TenantId;
use crate::domain::policy::{Policy, PolicyId, PolicySet};
use crate::domain::record::Record;
use crate::domain::scope::ScopeFilter;
use crate::driver::script::Counted;
use crate::store::admin::{Change, Changes};
use crate::store::signature::{FlatRecord, signature};
use crate::store::{Lane, Pair, Store, StoreError, outcome};

signature! {
    /// Records a policy of a tenant. The requests that come after it are under it.
    CREATE_POLICY: CreatePolicy -> CreatePolicyReply = "admin/policies/create_policy";
    names { caller: ScriptCaller<'a>, key_id of caller }
    change of tenant {
        read api_key(key_id);
        write tenant_key: tenant(tenant), policy(policy_id), policies(tenant), policy_names(tenant), policy_changes(tenant);
    }
    args {
        day,
        key_hash of caller,
        tenant: &'a TenantId,
        policy_id: &'a PolicyId,
        name: &'a str,
        scope_pattern: &'a str,
        /// Of the tenant's policies from now on; random.
        version: &'a str,
        /// Policies that the tenant may have.
        limit: u32,
        /// What else the key must be permitted.
        permission: Option<&'static str>,
        fields: Counted<&'a [Pair]>,
    }
    replies {
        unauthorized, forbidden, scope_forbidden, clock, idempotency_mismatch, replayed, tenant_unreadable, tenant_closed,
        tenant_suspended, owner_not_found, duplicate_policy, too_many, taken: Taken, created: Created { record: FlatRecord },
    }
    writes "On created: the policy, the tenant's list, names, changes and version, the event, the audit entry. Otherwise nothing."
}

signature! {
    /// Changes a policy of a tenant. A field that is sent as it is stored is no change.
    ///
    /// The audit entry gets the pattern.
    UPDATE_POLICY: UpdatePolicy -> UpdatePolicyReply = "admin/policies/update_policy";
    names { caller: ScriptCaller<'a>, key_id of caller }
    change of tenant {
        read api_key(key_id);
        write tenant_key: tenant(tenant), policy(policy_id), policy_names(tenant), policy_changes(tenant);
    }
    args {
        day,
        key_hash of caller,
        /// Of the API key, or the owner.
        tenant: &'a TenantId,
        policy_id: &'a PolicyId,
        sent_name: Option<&'a str>,
        /// What else the key must be permitted.
        permission: Option<&'static str>,
        /// Of the tenant's policies from now on; random.
        version: &'a str,
        changes: Changes,
    }
    replies {
        unauthorized, forbidden, clock, policy_not_found, foreign_policy, corrupt, scope_forbidden, idempotency_mismatch, replayed,
        tenant_unreadable, tenant_closed, tenant_suspended, duplicate_policy, templates_below, updated: Updated { record: FlatRecord },
    }
    writes "On updated: the policy, the audit entry; where something changed, the tenant's names, changes and version and the event. \
Otherwise nothing."
}

signature! {
    /// Reads a number of a tenant's policies in the order of their ids, from a position on: as many as a number of bytes allows,
    /// but one at least. last: the last id that was looked at.
    LIST_POLICIES: ListPolicies -> ListPoliciesReply = "admin/policies/list_policies", flags "no-writes,allow-oom";
    names { caller: ScriptCaller<'a>, key_id of caller }
    keys of partition of tenant { read api_key(key_id), tenant_key: tenant(tenant), policies(tenant); }
    builds { read policy() }
    args {
        key_hash of caller,
        tenant: &'a TenantId,
        /// The pattern filter of the request.
        scope_pattern: Option<&'a str>,
        /// An id.
        after: Option<&'a str>,
        rows: usize,
        bytes: usize,
    }
    replies {
        unauthorized, forbidden, scope_forbidden,
        listed: Listed { scope_filter: ScopeFilter, last: String, complete: bool, records: Vec<Record> },
    }
    writes "Nothing."
}

signature! {
    /// Reads a number of a tenant's policies and their version, for a replica to choose among them: as many as a number of bytes
    /// allows, but one at least. last: the last id that was looked at.
    LOAD_POLICIES: LoadPolicies -> LoadPoliciesReply = "runtime/load_policies", flags "no-writes,allow-oom";
    names { tenant: &'a TenantId }
    keys of partition of tenant { read tenant_key: tenant(tenant), policies(tenant); }
    builds { read policy() }
    args {
        /// An id, or ''.
        after: &'a str,
        rows: usize,
        bytes: usize,
    }
    replies { loaded: Loaded { version: String, last: String, complete: bool, records: Vec<Record> } }
    writes "Nothing."
}

signature! {
    /// Reads those of a tenant's policies that have changed since a version, as they are now, oldest change first: as many as a
    /// number of bytes allows, but one at least. version: the one that was reached. unknown_version: the changes since are not kept.
    CHANGED_POLICIES: ChangedPolicies -> ChangedPoliciesReply = "runtime/changed_policies", flags "no-writes,allow-oom";
    names { tenant: &'a TenantId }
    keys of partition of tenant { read tenant_key: tenant(tenant), policy_changes(tenant); }
    builds { read policy() }
    args {
        version: &'a str,
        bytes: usize,
    }
    replies {
        unknown_version: UnknownVersion,
        changed: Changed { version: String, complete: bool, records: Vec<Record> },
    }
    writes "Nothing."
}

/// Policies that one call reads; a page of a script's time.
pub(crate) const ROWS: usize = 80;
/// The same in bytes: caps make policies long.
pub(crate) const BYTES: usize = 64 << 10;

impl Store {
    /// All policies of a tenant at one version. Of those that are `known` at an earlier one only what has changed since is
    /// read, if that is known.
    ///
    /// # Errors
    /// [`StoreError::Record`] for a record that cannot be read: which policy counts is then unknown.
    pub async fn load_policies(
        &self,
        tenant: &TenantId,
        known: Option<&PolicySet>,
    ) -> Result<PolicySet, StoreError> {
        if let Some(known) = known
            && let Some(set) = self.changed_policies(tenant, known).await?
        {
            return Ok(set);
        }
        loop {
            let (set, last_version) = self.all_policies(tenant).await?;
            if set.version() == last_version {
                return Ok(set);
            }
            // Changed between two steps.
            if let Some(set) = self.changed_policies(tenant, &set).await? {
                return Ok(set);
            }
        }
    }

    /// All policies, at the version of the first step or a later one, and the version of the last step.
    async fn all_policies(&self, tenant: &TenantId) -> Result<(PolicySet, String), StoreError> {
        let (mut first, mut after, mut policies) = (None::<String>, String::new(), Vec::new());
        loop {
            let call = LoadPolicies {
                tenant,
                after: &after,
                rows: ROWS,
                bytes: BYTES,
            };
            let LoadPoliciesReply::Loaded {
                version,
                last,
                complete,
                records,
            } = outcome(self.run(Lane::Request, &call).await)?;
            for record in &records {
                policies.push(Policy::from_record(record)?);
            }
            let first = first.get_or_insert_with(|| version.clone());
            if complete {
                return Ok((PolicySet::new(first, policies), version));
            }
            after = last;
        }
    }

    /// The policies of `known` with all changes since, `None` where the changes are not known.
    async fn changed_policies(
        &self,
        tenant: &TenantId,
        known: &PolicySet,
    ) -> Result<Option<PolicySet>, StoreError> {
        let (mut reached, mut policies) = (known.version().to_owned(), Vec::new());
        loop {
            let call = ChangedPolicies {
                tenant,
                version: &reached,
                bytes: BYTES,
            };
            let ChangedPoliciesReply::Changed {
                version,
                complete,
                records,
            } = outcome(self.run(Lane::Request, &call).await)?
            else {
                return Ok(None);
            };
            for record in &records {
                policies.push(Policy::from_record(record)?);
            }
            if complete {
                return Ok(Some(known.with_changes(&version, policies)));
            }
            reached = version;
        }
    }
}
