//! Memory for request bodies that are being read, in bytes: bounded for the process and for each tenant, however many connections
//! send one.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

use crate::domain::ids::TenantId;

/// How many tenants can fill the memory together: each may take one part of so many.
const TENANTS_TO_FILL: usize = 4;

/// The memory for bodies of a process.
#[derive(Debug)]
pub struct BodyMemory {
    all: Arc<Semaphore>,
    bytes_of_tenant: usize,
    tenants: Mutex<HashMap<TenantId, Arc<Semaphore>>>,
}

/// Room for a body, until it is dropped.
#[derive(Debug)]
pub struct BodyRoom {
    _of_all: OwnedSemaphorePermit,
    _of_tenant: Option<OwnedSemaphorePermit>,
}

impl BodyMemory {
    /// With so many bytes. A tenant always has room for one body of the largest size.
    pub fn new(bytes: usize, body_bytes_max: usize) -> Self {
        let bytes_of_tenant = (bytes / TENANTS_TO_FILL).max(body_bytes_max);
        Self {
            all: Arc::new(Semaphore::new(bytes.max(bytes_of_tenant))),
            bytes_of_tenant,
            tenants: Mutex::default(),
        }
    }

    /// Waits for room for a body of at most the largest size; of a tenant's, in both bounds.
    ///
    /// # Errors
    /// None: the semaphores are never closed.
    pub async fn room(
        &self,
        tenant: Option<&TenantId>,
        bytes: u32,
    ) -> Result<BodyRoom, AcquireError> {
        let of_tenant = match tenant {
            Some(tenant) => Some(self.of_tenant(tenant).acquire_many_owned(bytes).await?),
            None => None,
        };
        let all = Arc::clone(&self.all);
        Ok(BodyRoom {
            _of_all: all.acquire_many_owned(bytes).await?,
            _of_tenant: of_tenant,
        })
    }

    fn of_tenant(&self, tenant: &TenantId) -> Arc<Semaphore> {
        let mut tenants = self.tenants.lock();
        // Room that is taken or waited for holds its semaphore.
        tenants.retain(|_, room| Arc::strong_count(room) > 1);
        let full = || Arc::new(Semaphore::new(self.bytes_of_tenant));
        Arc::clone(tenants.entry(tenant.clone()).or_insert_with(full))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const NO_TIME: Duration = Duration::from_millis(10);

    #[tokio::test]
    async fn a_tenant_that_takes_all_of_its_memory_leaves_room_for_others() {
        let memory = BodyMemory::new(400, 50);
        let [acme, bolt] = ["acme", "bolt"].map(|id| TenantId::parse(id).expect("an id"));
        let room = |tenant, bytes| timeout(NO_TIME, memory.room(tenant, bytes));
        let first = room(Some(&acme), 50).await.expect("free");
        let _second = room(Some(&acme), 50).await.expect("free");
        assert!(room(Some(&acme), 1).await.is_err(), "its part is taken");
        let _other = room(Some(&bolt), 50).await.expect("free");
        let _operator = room(None, 250).await.expect("free");
        assert!(room(Some(&bolt), 1).await.is_err(), "all is taken");
        drop(first);
        assert!(room(Some(&acme), 50).await.is_ok(), "it was given back");
        assert_eq!(memory.tenants.lock().len(), 2);
    }

    #[tokio::test]
    async fn a_body_of_the_largest_size_has_room_in_any_memory() {
        let memory = BodyMemory::new(10, 50);
        let acme = TenantId::parse("acme").expect("an id");
        assert!(timeout(NO_TIME, memory.room(Some(&acme), 50)).await.is_ok());
    }
}
