//! Which policy applies to a request. A replica remembers the policies of its tenants with the version that they are at,
//! and selects before it asks; the script compares the version, so a change counts for the very next request.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::sync::Mutex;

use super::LedgerError;
use crate::domain::ids::TenantId;
use crate::domain::policy::{PolicySelection, PolicySet};
use crate::domain::scope::ScopePath;
use crate::store::Store;
use crate::store::admin::policies::PolicyLoadError;

/// How many policies a replica remembers, of all tenants; about 500 bytes each.
const REMEMBERED_POLICIES: u64 = 200_000;
/// Tenants for which the memory is laid out at first.
const TENANTS_AT_FIRST: usize = 1_000;
/// Tenants share this many locks while their policies are read.
const READERS: usize = 64;

/// The policies that this replica knows.
pub(super) struct PolicyCache {
    sets: Cache<TenantId, Arc<PolicySet>, ByCount>,
    reading: [Mutex<()>; READERS],
}

#[derive(Clone)]
struct ByCount;

impl Weighter<TenantId, Arc<PolicySet>> for ByCount {
    fn weight(&self, _: &TenantId, set: &Arc<PolicySet>) -> u64 {
        set.len() as u64 + 1
    }
}

impl PolicyCache {
    pub fn new() -> Self {
        Self {
            sets: Cache::with_weighter(TENANTS_AT_FIRST, REMEMBERED_POLICIES, ByCount),
            reading: std::array::from_fn(|_| Mutex::new(())),
        }
    }

    /// The policies at this version, or later ones. They are read once, however many ask.
    async fn at_version(
        &self,
        store: &Store,
        tenant: &TenantId,
        version: &str,
    ) -> Result<Arc<PolicySet>, LedgerError> {
        let known = || {
            let set = self.sets.get(tenant);
            set.filter(|set| set.version() == version)
        };
        if let Some(set) = known() {
            return Ok(set);
        }
        let reader = usize::from(tenant.partition().index()) % READERS;
        let _reading = self.reading[reader].lock().await;
        if let Some(set) = known() {
            return Ok(set);
        }
        let set = Arc::new(store.load_policies(tenant).await?);
        self.sets.insert(tenant.clone(), Arc::clone(&set));
        Ok(set)
    }
}

/// The policy of one request, through all its calls.
pub(super) struct Governed<'a> {
    cache: &'a PolicyCache,
    tenant: &'a TenantId,
    scope: &'a ScopePath,
    selection: PolicySelection,
}

impl<'a> Governed<'a> {
    /// By what is known. A tenant of which nothing is known is taken for one without policies, which the script corrects.
    pub fn new(
        cache: &'a PolicyCache,
        tenant: &'a TenantId,
        scope: &'a ScopePath,
        now_ms: i64,
    ) -> Self {
        let set = cache.sets.get(tenant);
        let selection = set.map_or_else(PolicySelection::default, |set| set.select(scope, now_ms));
        Self {
            cache,
            tenant,
            scope,
            selection,
        }
    }

    /// What the next call is to assume.
    pub fn selection(&self) -> &PolicySelection {
        &self.selection
    }

    /// Selects anew, by the policies at this version and by the script's clock.
    pub async fn renew(
        &mut self,
        store: &Store,
        version: &str,
        now_ms: i64,
    ) -> Result<(), LedgerError> {
        let set = self.cache.at_version(store, self.tenant, version).await?;
        self.selection = set.select(self.scope, now_ms);
        Ok(())
    }
}

impl From<PolicyLoadError> for LedgerError {
    fn from(error: PolicyLoadError) -> Self {
        match error {
            PolicyLoadError::Store(error) => Self::Store(error),
            PolicyLoadError::Record(error) => Self::Record(error),
        }
    }
}
