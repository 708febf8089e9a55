//! Which policy applies to a request. A replica remembers the policies of its tenants with the version that they are at,
//! and selects before it asks; the script compares the version, so a change counts for the very next request.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::sync::Mutex;

use crate::domain::ids::TenantId;
use crate::domain::policy::{InForce, OveragePolicy, PolicySelection, PolicySet};
use crate::domain::scope::ScopePath;
use crate::store::{OperationError, Store};

/// Memory for the policies that a replica remembers, of all tenants, in bytes: enough for 200,000 without caps.
const REMEMBERED_BYTES: u64 = 100 << 20;
/// Tenants for which the memory is laid out at first.
const TENANTS_AT_FIRST: usize = 1_000;
/// Tenants share this many locks while their policies are read.
const READERS: usize = 64;

/// The policies that this replica knows.
pub(super) struct PolicyCache {
    sets: Cache<TenantId, Arc<PolicySet>, ByBytes>,
    reading: [Mutex<()>; READERS],
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
            sets: Cache::with_weighter(TENANTS_AT_FIRST, REMEMBERED_BYTES, ByBytes),
            reading: std::array::from_fn(|_| Mutex::new(())),
        }
    }

    /// The policy for a request, as far as this replica knows. A tenant of which nothing is known is taken for one without
    /// policies, which the script corrects.
    pub fn known(&self, tenant: &TenantId, scope: &ScopePath, now_ms: i64) -> PolicySelection {
        let set = self.sets.get(tenant);
        set.map_or_else(PolicySelection::default, |set| set.select(scope, now_ms))
    }

    /// The policies at this version, or others than those known before. They are read once, however many ask; of a known tenant only those that
    /// have changed.
    pub async fn at_version(
        &self,
        store: &Store,
        tenant: &TenantId,
        version: &str,
    ) -> Result<Arc<PolicySet>, OperationError> {
        let known = || self.sets.get(tenant);
        let before = known();
        let is_new = |set: &Arc<PolicySet>| {
            set.version() == version || before.as_ref().is_none_or(|old| !Arc::ptr_eq(old, set))
        };
        if let Some(set) = before.clone().filter(|set| set.version() == version) {
            return Ok(set);
        }
        let reader = usize::from(tenant.partition().index()) % READERS;
        let _reading = self.reading[reader].lock().await;
        // What another request has read meanwhile may be older than the version. Then the script says so once more, and
        // nobody waits for one read per waiting request.
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
pub(super) fn policy_words(policy: Option<&InForce>) -> String {
    let words = |policy: &InForce| {
        format!(
            "{} {} {} {}",
            policy.overage.map_or("-", OveragePolicy::as_str),
            number(policy.ttl.default_ttl_ms),
            number(policy.ttl.max_ttl_ms),
            number(policy.ttl.max_extensions),
        )
    };
    policy.map(words).unwrap_or_default()
}

/// `max_reservations_per_minute max_commits_per_minute policy_id`, `-` for what is not limited; `None` without limits.
pub(super) fn rate_limits(policy: Option<&InForce>, stored_bytes: Option<&str>) -> Option<String> {
    let of_policy = policy.and_then(|policy| {
        let limits = policy.rate_limits;
        let reservations = limits.max_reservations_per_minute;
        let commits = limits.max_commits_per_minute;
        reservations.or(commits)?;
        let (reservations, commits) = (number(reservations), number(commits));
        Some(format!("{reservations} {commits} {}", policy.id))
    });
    of_policy.as_deref().or(stored_bytes)?;
    let of_policy = of_policy.unwrap_or_else(|| "- - -".to_owned());
    Some(format!("{of_policy} {}", stored_bytes.unwrap_or("- -")))
}

fn number(value: Option<i64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}
