//! The operations of the admin plane, and of tenants on what they own: tenants, API keys, budgets, policies, webhook
//! subscriptions, bulk actions, the overview, and lists of events and audit entries. A change, its event and its audit entry
//! are one script; a close and a bulk action are several.

mod api_keys;
pub mod audit;
mod budgets;
pub mod bulk_actions;
pub mod events;
pub mod log_walk;
mod overview;
mod policies;
mod records;
pub mod tenants;
#[cfg(test)]
mod tests;
pub mod webhooks;

use std::hash::Hash;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use quick_cache::sync::Cache;
use sha2::{Digest, Sha256};

pub use crate::admin::budgets::list::{BudgetFilter, BudgetQuery, BudgetSort};
pub use crate::store::admin::budgets::FundReply;
pub use api_keys::{ApiKeyFilter, ApiKeyQuery, ApiKeySort, Granted, ValidatedApiKey};
pub use audit::Failure;
pub use budgets::Funding;
pub use bulk_actions::BulkRequest;
pub use overview::AdminOverviewResponse;
pub use policies::{PolicyFilter, PolicyQuery};
pub use tenants::{TenantFilter, TenantPage, TenantQuery, TenantSort, UpdatedTenant};

use crate::domain::api_key::secret::KeyId;
use crate::domain::audit::entry::{add, entry};
use crate::domain::caller::Caller;
use crate::domain::cause::Cause;
use crate::domain::dialect::Dialect;
use crate::domain::ids::{IdempotencyKey, TenantId};
use crate::domain::payload_hash::PayloadHash;
use crate::domain::policy::PolicyId;
use crate::domain::refusal::{CountLimits, Refusal, TenantRefusal};
use crate::domain::seal::SealingKeys;
use crate::store::admin::Change;
use crate::store::{ExtraRoundTrip, Store, StoreError};

/// The admin plane's operations. Cheap to clone.
#[derive(Clone)]
pub struct Admin {
    store: Store,
    dialect: Dialect,
    policy_owners: Arc<Cache<PolicyId, TenantId>>,
    key_owners: Arc<Cache<KeyId, TenantId>>,
    sealing: SealingKeys,
    cross_tenant_list: bool,
    limits: CountLimits,
    last_overview: Arc<overview::LastOverview>,
}

/// How many policies a replica remembers the tenants of, which never change; about 100 bytes each.
const REMEMBERED_POLICY_OWNERS: usize = 10_000;
/// The same for API keys, about 200 bytes each.
const REMEMBERED_KEY_OWNERS: usize = 65_536;

/// Arguments that all mutations share.
#[derive(Debug)]
pub struct Request<'a> {
    /// The caller and the request.
    pub cause: &'a Cause,
    /// The client's name for the attempt, if it has one.
    pub idempotency_key: Option<&'a IdempotencyKey>,
    /// Digest of the body and of the parameters that select the target.
    pub payload_hash: &'a PayloadHash,
}

impl Admin {
    /// Over a store. The dialect decides how the text of a new API key begins, and its default permissions.
    pub fn new(store: Store, dialect: Dialect) -> Self {
        Self {
            store,
            dialect,
            policy_owners: Arc::new(Cache::new(REMEMBERED_POLICY_OWNERS)),
            key_owners: Arc::new(Cache::new(REMEMBERED_KEY_OWNERS)),
            sealing: SealingKeys::default(),
            cross_tenant_list: false,
            limits: CountLimits::DEFAULT,
            last_overview: Arc::default(),
        }
    }

    /// With keys under which outcomes that show a secret can be kept for a repetition.
    pub fn sealing(self, sealing: SealingKeys) -> Self {
        Self { sealing, ..self }
    }

    /// With other limits than the defaults.
    pub fn limits(self, limits: CountLimits) -> Self {
        Self { limits, ..self }
    }

    /// The dialect that it speaks.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Whether the admin key may list the budgets of all tenants at once.
    pub fn cross_tenant_list(self, cross_tenant_list: bool) -> Self {
        Self {
            cross_tenant_list,
            ..self
        }
    }
}

impl Admin {
    /// The tenant of the record that an id names, which never changes. The first use of an id on this replica costs a look-up.
    async fn owner_of<Id: Eq + Hash + Clone, F>(
        &self,
        remembered: &Cache<Id, TenantId>,
        id: &Id,
        reason: ExtraRoundTrip,
        look_up: impl FnOnce() -> F,
    ) -> Result<Option<TenantId>, StoreError>
    where
        F: Future<Output = Result<Option<TenantId>, StoreError>>,
    {
        if let Some(owner) = remembered.get(id) {
            return Ok(Some(owner));
        }
        self.store.extra_round_trip(reason);
        let owner = look_up().await?;
        if let Some(owner) = &owner {
            remembered.insert(id.clone(), owner.clone());
        }
        Ok(owner)
    }

    /// The tenant that is to own a new record, which the request names: in a member that holds a path, in canonical form, with
    /// the tenant as it was sent. A caller who may not ask at all learns that first.
    async fn tenant_of_new(
        &self,
        caller: &Caller,
        permission: &str,
        named: Option<&str>,
        (member, path, requested): (&'static str, &str, &str),
    ) -> Result<TenantId, StoreError> {
        let own = match caller {
            Caller::Tenant(caller) => Some(caller.tenant.as_str()),
            Caller::Admin(_) => named.filter(|named| !named.trim().is_empty()),
        };
        let refusal = match own {
            _ if named.is_some() && !caller.is_admin() => TenantRefusal::IdPresent,
            None => TenantRefusal::IdMissing,
            Some(tenant) if tenant != requested => TenantRefusal::Outside {
                member,
                value: path.to_owned(),
                tenant: tenant.to_owned(),
            },
            Some(tenant) => match TenantId::parse(tenant) {
                Some(tenant) => return Ok(tenant),
                None => TenantRefusal::OwnerNotFound(tenant.to_owned()),
            },
        };
        self.store.admin_access(caller, permission, path).await?;
        refuse(refusal)
    }
}

impl Request<'_> {
    /// Where the outcome of this operation is kept under this key, for this tenant.
    fn idempotency(&self, operation: &str) -> Option<String> {
        self.idempotency_key.map(|key| {
            // An operation's name holds no zero byte, so no two pairs read alike.
            let digest = Sha256::new()
                .chain_update(operation)
                .chain_update([0])
                .chain_update(key.as_str())
                .finalize();
            BASE64_URL_SAFE_NO_PAD.encode(&digest[..16])
        })
    }
}

impl<'a> Change<'a> {
    /// With the audit entry of an operation on a resource, kind and id, to which the operation adds its metadata. The id is
    /// empty where only the script knows the resource.
    fn new(
        request: &Request<'a>,
        operation: &'static str,
        resource: (&'static str, &str),
        status: Option<u16>,
    ) -> Self {
        let mut audit = entry(request.cause, operation, resource, status);
        if resource.1.is_empty() {
            audit.retain(|(name, _)| !name.starts_with("resource_"));
        }
        Self {
            context: request.cause.lines(),
            audit,
            payload_hash: request.payload_hash.as_str(),
            digest: request.idempotency(operation),
        }
    }

    /// Adds a member of the audit entry, if there is a value.
    fn add(&mut self, name: &'static str, value: Option<impl ToString>) {
        add(&mut self.audit, name, value);
    }
}

fn refuse<T>(refusal: impl Into<Refusal>) -> Result<T, StoreError> {
    Err(refusal.into().into())
}
