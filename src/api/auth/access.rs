//! Turns credentials into callers. An API key gets its tenant here, which never changes; the script that does the work
//! checks whether the key is valid. An admin key is compared here, because it is configured here.

use std::net::IpAddr;
use std::time::Instant;

use super::backoff::{Backoff, Guesser, Paused};
use crate::admin::Admin;
use crate::api::errors::ApiError;
use crate::domain::admin_key::{AdminCaller, AdminKeys};
use crate::domain::api_key::secret::{ApiKeyText, KeyHash, KeyId};
use crate::domain::caller::{Caller, RuntimeCaller};
use crate::domain::dialect::Dialect;
use crate::domain::refusal::{BadCredential, BadKey};
use crate::store::StoreError;

/// Turns credentials into callers.
pub struct Access {
    admin: Admin,
    dialect: Dialect,
    admin_keys: AdminKeys,
    admin_backoff: Backoff,
    backoff: Backoff,
}

impl Access {
    /// With the credentials of the configuration. `failures_max`: wrong keys of a client before its next ones are slowed down.
    pub fn new(admin: Admin, dialect: Dialect, admin_keys: AdminKeys, failures_max: u32) -> Self {
        Self {
            admin,
            dialect,
            admin_keys,
            admin_backoff: Backoff::new(failures_max),
            backoff: Backoff::new(failures_max),
        }
    }

    /// The dialect whose names the wire carries.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The caller that an API key claims. The first use of a key on this replica costs a look-up.
    ///
    /// # Errors
    /// 401 when no key of this text can exist, or none is in the store.
    pub async fn runtime_caller(&self, text: &str) -> Result<RuntimeCaller, ApiError> {
        let refused = |why| ApiError::unauthorized(BadCredential::Key(why));
        let prefixes = self.dialect.words().api_key_prefixes;
        let text = text.trim();
        let key_id = ApiKeyText::id_of(text, prefixes);
        let key_id = key_id.ok_or_else(|| refused(BadKey::Malformed))?;
        let owner = self.admin.owner_of_key(&key_id).await?;
        let tenant = owner.ok_or_else(|| refused(BadKey::NotFound))?;
        Ok(RuntimeCaller {
            key_id,
            key_hash: KeyHash::of(text),
            partition: tenant.partition(),
            tenant,
        })
    }

    /// The holder of an admin key, if it is one of those configured.
    ///
    /// # Errors
    /// 401; also when none is configured. 429 in place of it after too many wrong keys from the same address.
    pub fn admin_caller(&self, text: &str, address: IpAddr) -> Result<AdminCaller, ApiError> {
        self.admin_keys.accept(text.trim()).ok_or_else(|| {
            let paused = self.admin_backoff.failed((address, None), Instant::now());
            match paused {
                Some(paused) => self.too_many_failures(address, paused),
                None => ApiError::unauthorized(BadCredential::AdminKey),
            }
        })
    }

    /// The holder of a key that was presented before, as `holder_of` named them; `None` once an admin key is removed or replaced. Whether an
    /// API key still holds, the next script finds out.
    ///
    /// # Errors
    /// [`StoreError`] when the key is new to this replica and Redis is unavailable.
    pub async fn resume(&self, holder: &str, hash: &str) -> Result<Option<Caller>, StoreError> {
        let Some(key_hash) = KeyHash::parse(hash) else {
            return Ok(None);
        };
        let Some(key_id) = holder.strip_prefix("key:").and_then(KeyId::parse) else {
            let admin = self.admin_keys.holder(&key_hash).map(Caller::Admin);
            return Ok(admin.filter(|caller| Self::holder_of(caller).0 == holder));
        };
        let owner = self.admin.owner_of_key(&key_id).await?;
        Ok(owner.map(|tenant| {
            Caller::Tenant(RuntimeCaller {
                key_id,
                key_hash,
                partition: tenant.partition(),
                tenant,
            })
        }))
    }

    /// What names the holder of a key, and the digest of the key.
    pub fn holder_of(caller: &Caller) -> (String, KeyHash) {
        match caller {
            Caller::Tenant(caller) => (format!("key:{}", caller.key_id), caller.key_hash.clone()),
            Caller::Admin(admin) => {
                let name = admin.name().map_or("", |name| name.as_str());
                (format!("admin:{name}"), admin.key_hash())
            }
        }
    }

    /// Counts a wrong API key. Whether its client sent too many, so that the response is to be delayed.
    pub fn is_guessing(&self, guesser: Guesser) -> bool {
        self.backoff.failed(guesser, Instant::now()).is_some()
    }

    fn too_many_failures(&self, address: IpAddr, paused: Paused) -> ApiError {
        let (limit, present) = (self.admin_backoff.failures_max, paused.failures);
        let seconds = (paused.wait.as_millis() as u64).div_ceil(1000).max(1);
        let message = format!(
            "Too many wrong admin keys from {address}: {present}, and above {limit} each is followed by a pause; \
             try again in {seconds} s"
        );
        ApiError::limited(message, paused.wait).beyond(
            "admin_key_failures",
            limit.into(),
            present.into(),
        )
    }
}
