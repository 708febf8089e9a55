//! Who claims to call. An API key's claim is checked by the script that does the work, in the same step; the admin key by
//! the replica, because it is configured there.

use std::fmt;
use std::sync::Arc;

use secrecy::{ExposeSecret, SecretString};
use subtle::{Choice, ConstantTimeEq};

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

/// The holder of an admin key. Only [`AdminKeys::accept`] makes one.
#[derive(Debug, Clone, Copy)]
pub struct AdminCaller {
    _compared: (),
}

/// The keys of the admin plane. Compared in constant time, never printed.
#[derive(Debug, Clone, Default)]
pub struct AdminKeys(Arc<[SecretString]>);

/// A list of admin keys has an empty entry, which would be a key that anyone can guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key between two commas is empty")]
pub struct EmptyAdminKey;

impl AdminKeys {
    /// Reads a comma-separated list; blank means none.
    pub fn parse(list: &str) -> Result<Self, EmptyAdminKey> {
        if list.trim().is_empty() {
            return Ok(Self::default());
        }
        let keys: Vec<_> = list.split(',').map(str::trim).collect();
        if keys.iter().any(|key| key.is_empty()) {
            return Err(EmptyAdminKey);
        }
        Ok(Self(keys.into_iter().map(SecretString::from).collect()))
    }

    /// Whether no key opens the admin plane.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The holder of `key`, if it is one of them. Takes the same time whichever it is.
    pub fn accept(&self, key: &str) -> Option<AdminCaller> {
        let same = |known: &SecretString| known.expose_secret().as_bytes().ct_eq(key.as_bytes());
        let found = self.0.iter().map(same);
        let is_known: bool = found.fold(Choice::from(0), |any, one| any | one).into();
        is_known.then_some(AdminCaller { _compared: () })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_listed_key_opens_the_admin_plane() {
        let keys = AdminKeys::parse("old, new").expect("two keys");
        let opens = |key| keys.accept(key).is_some();
        assert!(opens("old") && opens("new"));
        assert!(!opens("") && !opens("ne") && !opens("old, new"));
        let none = AdminKeys::parse(" ").expect("none");
        assert!(none.is_empty() && none.accept("").is_none());
    }
}
