//! Limits how many lists of one tenant are sorted at the same time, so that no tenant keeps Redis busy with sorts.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::domain::ids::TenantId;

/// How many lists each tenant sorts at present on this replica. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct SortPermits(Arc<Mutex<HashMap<TenantId, usize>>>);

/// The permit of one list, until it is dropped.
#[derive(Debug)]
pub struct SortPermit<'a> {
    permits: &'a SortPermits,
    tenant: &'a TenantId,
}

impl SortPermits {
    /// Permits of each tenant. Redis sorts one list after the other, so more would be no faster.
    pub const PER_TENANT: usize = 2;

    /// A permit, unless the tenant has taken all of its own.
    pub fn take<'a>(&'a self, tenant: &'a TenantId) -> Option<SortPermit<'a>> {
        let mut taken = self.0.lock();
        let count = taken.entry(tenant.clone()).or_default();
        (*count < Self::PER_TENANT).then(|| {
            *count += 1;
            SortPermit {
                permits: self,
                tenant,
            }
        })
    }
}

impl Drop for SortPermit<'_> {
    fn drop(&mut self) {
        let mut taken = self.permits.0.lock();
        if let Some(count) = taken.get_mut(self.tenant) {
            *count -= 1;
        }
        taken.retain(|_, count| *count > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tenant_has_its_permits_and_returned_ones_are_forgotten() {
        let (permits, [acme, bolt]) = (
            SortPermits::default(),
            ["acme", "bolt"].map(|id| TenantId::parse(id).expect("an id")),
        );
        let first = permits.take(&acme);
        let second = permits.take(&acme);
        assert!(first.is_some() && second.is_some());
        assert!(permits.take(&acme).is_none());
        assert!(permits.take(&bolt).is_some(), "that of another tenant");
        drop(first);
        assert!(permits.take(&acme).is_some(), "one was returned");
        drop(second);
        assert!(permits.0.lock().is_empty());
    }
}
