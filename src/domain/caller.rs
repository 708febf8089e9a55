//! Who claims to call. An API key's claim is judged by the script that does what is asked, in the same step; the admin
//! key by the replica, because it is configured there.

use super::ids::{Partition, TenantId};
use crate::domain::api_key::secret::{KeyHash, KeyId};

/// The holder of a tenant's API key, so far as he says.
#[derive(Debug, Clone)]
pub struct RuntimeCaller {
    /// The key's record.
    pub key_id: KeyId,
    /// Digest of the secret that was presented.
    pub key_hash: KeyHash,
    /// The tenant that the record names: fixed for the life of a key.
    pub tenant: TenantId,
    /// The tenant's part of the key space.
    pub partition: Partition,
}

/// The holder of an admin key. Made by the check of that key and by nothing else.
#[derive(Debug, Clone, Copy)]
pub struct AdminCaller {
    _checked: (),
}

impl AdminCaller {
    /// Vouches that an admin key was presented and found right.
    pub fn vouched() -> Self {
        Self { _checked: () }
    }
}

/// Either of the two, on the operations that both may call.
#[derive(Debug, Clone)]
pub enum Caller {
    /// A tenant's key: sees and touches what is the tenant's.
    Tenant(RuntimeCaller),
    /// The admin key: on behalf of any tenant.
    Admin(AdminCaller),
}
