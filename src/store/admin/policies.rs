//! `create_policy.lua`, `update_policy.lua`, `list_policies.lua` and `load_policies.lua`.

use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;
use crate::domain::policy::{Policy, PolicyId, PolicySet, ScopePattern};
use crate::domain::record::{FieldChange, Record, RecordError};
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::scope::ScopeFilter;
use crate::driver::clock::Day;
use crate::driver::node::Lane;
use crate::store::admin::{
    AdminError, Change, Pairs, caller_words, creation_refused, outcome, push_counted, push_day,
    push_pairs, refused,
};
use crate::store::runtime::record;
use crate::store::scripts::{CREATE_POLICY, LIST_POLICIES, LOAD_POLICIES, UPDATE_POLICY};
use crate::store::{Arg, Reply, Store, StoreError};

/// Policies that one call reads; a page of a script's time.
const ROWS: usize = 200;

/// A policy to be recorded.
#[derive(Debug)]
pub struct PolicyRecord<'a> {
    /// Names it; of the tenant's partition.
    pub policy_id: &'a PolicyId,
    /// Whose policy.
    pub tenant: &'a TenantId,
    /// Unique in the tenant.
    pub name: &'a str,
    /// For which scopes.
    pub scope_pattern: &'a ScopePattern,
    /// What only the record keeps.
    pub fields: &'a Pairs,
}

/// What `create_policy.lua` did.
#[derive(Debug)]
pub enum PolicyCreation {
    /// The policy is in force, as its record says.
    Created(Record),
    /// The random id has been used before; try another.
    Taken,
}

/// A step along a tenant's policies.
#[derive(Debug)]
pub struct PolicyRows {
    /// The restriction of the caller's key.
    pub scope_filter: ScopeFilter,
    /// The last id that was looked at.
    pub last: String,
    /// Whether none is left.
    pub complete: bool,
    /// In the order of their ids.
    pub records: Vec<Record>,
}

/// Why the policies of a tenant could not be read.
#[derive(Debug, thiserror::Error)]
pub enum PolicyLoadError {
    /// The store could not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A record cannot be read. Which policy counts is then unknown.
    #[error(transparent)]
    Record(#[from] RecordError),
}

impl Store {
    /// Records a policy. `version` names the tenant's policies from then on.
    ///
    /// # Errors
    /// Refusals: of the key; tenant closed, unknown or suspended; a name that is used.
    pub async fn create_policy(
        &self,
        caller: &Caller,
        policy: &PolicyRecord<'_>,
        version: &str,
        change: &Change<'_>,
    ) -> Result<PolicyCreation, AdminError> {
        let keys = self.keys();
        let (tenant, partition) = (policy.tenant.as_str(), policy.tenant.partition());
        let (key_hash, key_id) = caller_words(caller);
        let build = |day: Day| {
            let mut key_names = vec![
                keys.api_key(partition, key_id),
                keys.tenant(partition, tenant),
                keys.policy(partition, policy.policy_id.as_str()),
                keys.policies(partition, tenant),
                keys.policy_names(partition, tenant),
                keys.events(partition, tenant, day),
                keys.outbox(partition),
                keys.days(partition),
                keys.audit(partition, tenant, day),
                keys.chain(partition, tenant),
                keys.unsealed(partition),
            ];
            let idempotency = change.idempotency;
            key_names.extend(idempotency.map(|key| keys.idempotency(partition, tenant, key)));
            let mut args = vec![key_hash.to_owned(), tenant.to_owned()];
            push_day(&mut args, day);
            let pattern = policy.scope_pattern.as_str();
            args.extend([policy.policy_id.as_str(), policy.name, pattern].map(str::to_owned));
            args.extend([version, change.payload_hash, change.cause].map(str::to_owned));
            push_counted(&mut args, policy.fields);
            push_pairs(&mut args, change.audit);
            (key_names, args)
        };
        let (word, mut reply) = self.admin_call(&CREATE_POLICY, build).await?;
        match outcome(word, &mut reply)?.as_str() {
            "created" => Ok(PolicyCreation::Created(Record::from_pairs(reply.rest()?))),
            "taken" => Ok(PolicyCreation::Taken),
            "duplicate" => Err(AdminError::Refused(AdminRefusal::DuplicatePolicy)),
            other => Err(creation_refused(caller, other, reply)),
        }
    }

    /// Changes a policy of this tenant and returns its record. `version` names the tenant's policies from then on.
    ///
    /// # Errors
    /// Refusals: of the key; no such policy, a foreign one; a scope that the key may not act on; tenant closed or
    /// suspended; a name that is used.
    pub async fn update_policy(
        &self,
        caller: &Caller,
        policy_id: &PolicyId,
        tenant: &TenantId,
        changes: &[FieldChange],
        version: &str,
        change: &Change<'_>,
    ) -> Result<Record, AdminError> {
        let (keys, partition, tenant) = (self.keys(), policy_id.partition(), tenant.as_str());
        let (key_hash, key_id) = caller_words(caller);
        let name = changes.iter().find(|change| change.member == "name");
        let name = name.and_then(|name| name.value.as_deref());
        let build = |day: Day| {
            let mut key_names = vec![
                keys.api_key(partition, key_id),
                keys.tenant(partition, tenant),
                keys.policy(partition, policy_id.as_str()),
                keys.policy_names(partition, tenant),
                keys.events(partition, tenant, day),
                keys.outbox(partition),
                keys.days(partition),
                keys.audit(partition, tenant, day),
                keys.chain(partition, tenant),
                keys.unsealed(partition),
            ];
            let idempotency = change.idempotency;
            key_names.extend(idempotency.map(|key| keys.idempotency(partition, tenant, key)));
            let mut args = vec![key_hash.to_owned(), tenant.to_owned()];
            push_day(&mut args, day);
            args.extend([policy_id.as_str(), name.unwrap_or_default(), version].map(str::to_owned));
            args.extend([change.payload_hash, change.cause].map(str::to_owned));
            args.push((changes.len() * 3).to_string());
            for change in changes {
                let value = change.value.as_ref().map(|value| format!("={value}"));
                args.extend([change.member.to_owned(), change.field.to_owned()]);
                args.push(value.unwrap_or_default());
            }
            push_pairs(&mut args, change.audit);
            (key_names, args)
        };
        let (word, mut reply) = self.admin_call(&UPDATE_POLICY, build).await?;
        match outcome(word, &mut reply)?.as_str() {
            "updated" => Ok(Record::from_pairs(reply.rest()?)),
            "not_found" => Err(AdminError::Refused(AdminRefusal::PolicyNotFound)),
            "foreign" => Err(AdminError::Refused(AdminRefusal::ForeignPolicy)),
            "duplicate" => Err(AdminError::Refused(AdminRefusal::DuplicatePolicy)),
            other => Err(refused(other, reply)),
        }
    }

    /// Whose a policy is, `None` where there is no such policy. It never changes.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn tenant_of_policy(
        &self,
        policy_id: &PolicyId,
    ) -> Result<Option<TenantId>, StoreError> {
        let key = self
            .keys()
            .policy(policy_id.partition(), policy_id.as_str());
        let stored = self.get_record(key).await?;
        let owner = stored
            .as_ref()
            .and_then(|stored| stored.record.get("tenant"));
        Ok(owner.and_then(TenantId::parse))
    }

    /// A step along a tenant's policies, beyond `after`. `scope_pattern`: the one that is asked for, on which the key must
    /// be allowed to act. At most `rows_max` rows, and no more than a script should read.
    ///
    /// # Errors
    /// Refusals of the key.
    pub async fn list_policies(
        &self,
        caller: &Caller,
        tenant: &TenantId,
        scope_pattern: Option<&str>,
        after: Option<&str>,
        rows_max: usize,
    ) -> Result<PolicyRows, AdminError> {
        let (keys, partition, tenant) = (self.keys(), tenant.partition(), tenant.as_str());
        let (key_hash, key_id) = caller_words(caller);
        let key_names = [
            keys.api_key(partition, key_id),
            keys.tenant(partition, tenant),
            keys.policies(partition, tenant),
        ];
        let policy_prefix = keys.policy_prefix(partition);
        let args = [
            Arg::from(key_hash),
            Arg::from(tenant),
            Arg::from(scope_pattern),
            Arg::from(&policy_prefix),
            Arg::from(after),
            Arg::from(rows_max.min(ROWS) as i64),
        ];
        let reply = self
            .call_on(Lane::Background, &LIST_POLICIES, &key_names, &args)
            .await?;
        let mut reply = Reply::new(&LIST_POLICIES, reply)?;
        match reply.next_str()?.as_str() {
            "listed" => {
                let scope_filter = ScopeFilter::from_stored(&reply.next_str()?);
                let (last, complete, records) = rows(&mut reply)?;
                Ok(PolicyRows {
                    scope_filter,
                    last,
                    complete,
                    records,
                })
            }
            other => Err(refused(other, reply)),
        }
    }

    /// All policies of a tenant at one version.
    ///
    /// # Errors
    /// [`PolicyLoadError`].
    pub async fn load_policies(&self, tenant: &TenantId) -> Result<PolicySet, PolicyLoadError> {
        let (keys, partition) = (self.keys(), tenant.partition());
        let key_names = [
            keys.tenant(partition, tenant.as_str()),
            keys.policies(partition, tenant.as_str()),
        ];
        let policy_prefix = keys.policy_prefix(partition);
        let (mut version, mut after, mut policies) = (None::<String>, String::new(), Vec::new());
        loop {
            let args = [
                Arg::from(&policy_prefix),
                Arg::from(&after),
                Arg::from(ROWS as i64),
            ];
            let reply = self.call(&LOAD_POLICIES, &key_names, &args).await?;
            let mut reply = Reply::new(&LOAD_POLICIES, reply)?;
            match reply.next_str()?.as_str() {
                "loaded" => {}
                other => return Err(reply.unknown(other).into()),
            }
            let found = reply.next_str()?;
            if version.as_ref().is_some_and(|version| *version != found) {
                // Changed between two steps: from the start again.
                (version, after) = (None, String::new());
                policies.clear();
                continue;
            }
            let (last, complete, records) = rows(&mut reply)?;
            for record in &records {
                policies.push(Policy::from_record(record)?);
            }
            if complete {
                return Ok(PolicySet::new(&found, policies));
            }
            (version, after) = (Some(found), last);
        }
    }
}

fn rows(reply: &mut Reply) -> Result<(String, bool, Vec<Record>), StoreError> {
    let (last, complete) = (reply.next_str()?, reply.next_i64()? == 1);
    let mut records = Vec::with_capacity(reply.len());
    while !reply.is_empty() {
        records.push(record(reply)?);
    }
    Ok((last, complete, records))
}
