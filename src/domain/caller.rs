//! The claimed caller. An API key's claim is checked by the script that does the work, in the same step; the admin key by
//! the replica, because it is configured there.

use std::fmt;

use super::admin_key::AdminCaller;
use super::ids::{Partition, TenantId};
use crate::domain::api_key::secret::{KeyHash, KeyId};

/// The holder of a tenant's API key, as far as they say.
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

impl RuntimeCaller {
    /// The tenant's part of the key space.
    pub fn partition(&self) -> Partition {
        self.partition
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

impl Caller {
    /// Distinguishes its key from all others.
    pub fn identity(&self) -> &[u8] {
        match self {
            Self::Tenant(caller) => caller.key_id.as_str().as_bytes(),
            Self::Admin(caller) => caller.digest(),
        }
    }

    /// The holder of an API key.
    pub fn as_tenant(&self) -> Option<&RuntimeCaller> {
        match self {
            Self::Tenant(caller) => Some(caller),
            Self::Admin(_) => None,
        }
    }

    /// Whether it is the admin key.
    pub fn is_admin(&self) -> bool {
        matches!(self, Self::Admin(_))
    }
}

/// A caller as scripts check it: an API key, and the tenant that it is restricted to. All is empty for the holder of an admin
/// key and for the service itself, whom scripts do not check.
#[derive(Clone, Copy)]
pub struct ScriptCaller<'a> {
    /// Id of the API key.
    pub key_id: &'a str,
    /// Digest of the API key's secret.
    pub key_hash: &'a str,
    /// Tenant of the API key.
    pub tenant: &'a str,
}

impl ScriptCaller<'_> {
    /// A caller whom scripts do not check.
    pub const TRUSTED: Self = Self {
        key_id: "",
        key_hash: "",
        tenant: "",
    };
}

impl<'a> From<&'a RuntimeCaller> for ScriptCaller<'a> {
    fn from(caller: &'a RuntimeCaller) -> Self {
        Self {
            key_id: caller.key_id.as_str(),
            key_hash: caller.key_hash.as_str(),
            tenant: caller.tenant.as_str(),
        }
    }
}

impl<'a> From<&'a Caller> for ScriptCaller<'a> {
    fn from(caller: &'a Caller) -> Self {
        match caller {
            Caller::Tenant(caller) => caller.into(),
            Caller::Admin(_) => Self::TRUSTED,
        }
    }
}

impl fmt::Debug for ScriptCaller<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScriptCaller({}, redacted)", self.key_id)
    }
}
