//! Selects the policy that applies to a request. A replica caches the policies of its tenants with their version and selects
//! before the call; the script compares the version, so a change applies to the next request.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::sync::Mutex;

use crate::domain::amount::Unit;
use crate::domain::ids::TenantId;
use crate::domain::policy::{OveragePolicy, Policy, PolicySelection, PolicySet};
use crate::domain::scope::ScopePath;
use crate::store::{Store, StoreError};

/// Size of the cache for all tenants, in bytes: enough for 200,000 policies without caps.
const CACHE_BYTES: u64 = 100 << 20;
/// Tenants that the cache expects at the start.
const TENANTS_EXPECTED: usize = 1_000;
/// Locks that tenants share while their policies are read, and scopes while their ledgers turn.
pub(super) const LOCKS: usize = 64;

/// The policies that this replica knows.
pub(super) struct PolicyCache {
    sets: Cache<TenantId, Arc<PolicySet>, ByBytes>,
    locks: [Mutex<()>; LOCKS],
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<TenantId, Arc<PolicySet>> for ByBytes {
    fn weight(&self, _: &TenantId, set: &Arc<PolicySet>) -> u64 {
        set.bytes() as u64 + 1
    }
}

impl PolicyCache {
    pub fn new() -> Self {
        Self {
            sets: Cache::with_weighter(TENANTS_EXPECTED, CACHE_BYTES, ByBytes),
            locks: std::array::from_fn(|_| Mutex::new(())),
        }
    }

    /// The policy for a request, from the cache. A tenant that is not in it counts as one without policies; if that is wrong, the
    /// script says so.
    pub fn known(
        &self,
        tenant: &TenantId,
        (scope, unit): (&ScopePath, Unit),
        now_ms: i64,
    ) -> PolicySelection {
        let set = self.sets.get(tenant);
        set.map_or_else(PolicySelection::default, |set| {
            set.select(scope, unit, now_ms)
        })
    }

    /// The policies at this version, or at least newer ones than those cached before. Concurrent requests share one read; of a
    /// cached tenant only changed policies are read.
    pub async fn at_version(
        &self,
        store: &Store,
        tenant: &TenantId,
        version: &str,
    ) -> Result<Arc<PolicySet>, StoreError> {
        let known = || self.sets.get(tenant);
        let before = known();
        let is_new = |set: &Arc<PolicySet>| {
            set.version() == version || before.as_ref().is_none_or(|old| !Arc::ptr_eq(old, set))
        };
        if let Some(set) = before.clone().filter(|set| set.version() == version) {
            return Ok(set);
        }
        let lock = usize::from(tenant.partition().index()) % LOCKS;
        let _lock = self.locks[lock].lock().await;
        // Another request may have read an older version meanwhile. The script then replies `stale` again, so waiting requests
        // do not read one after the other.
        let known = known();
        if let Some(set) = known.clone().filter(is_new) {
            return Ok(set);
        }
        let set = Arc::new(store.load_policies(tenant, known.as_deref()).await?);
        self.sets.insert(tenant.clone(), Arc::clone(&set));
        Ok(set)
    }
}

/// `overage_policy default_ttl_ms max_ttl_ms max_extensions` of the policy that applies, `-` for what it leaves open; empty
/// without a policy.
pub(super) fn policy_words(policy: Option<&Policy>) -> String {
    let words = |policy: &Policy| {
        let ttl = policy.reservation_ttl_override;
        format!(
            "{} {} {} {}",
            policy
                .commit_overage_policy
                .map_or("-", OveragePolicy::as_str),
            number(ttl.default_ttl_ms),
            number(ttl.max_ttl_ms),
            number(ttl.max_extensions),
        )
    };
    policy.map(words).unwrap_or_default()
}

/// `max_reservations_per_minute max_commits_per_minute policy_id`, `-` for what is not limited; `None` without limits.
pub(super) fn rate_limits(policy: Option<&Policy>, stored_bytes: Option<&str>) -> Option<String> {
    let of_policy = policy.and_then(|policy| {
        let limits = policy.rate_limits;
        let reservations = limits.max_reservations_per_minute;
        let commits = limits.max_commits_per_minute;
        reservations.or(commits)?;
        let (reservations, commits) = (number(reservations), number(commits));
        Some(format!("{reservations} {commits} {}", policy.policy_id))
    });
    of_policy.as_deref().or(stored_bytes)?;
    let of_policy = of_policy.unwrap_or_else(|| "- - -".to_owned());
    Some(format!("{of_policy} {}", stored_bytes.unwrap_or("- -")))
}

fn number(value: Option<i64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
