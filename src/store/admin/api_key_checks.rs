//! `validate_api_key.lua` and `introspect.lua`: what can be said of an API key.

use crate::domain::api_key::KeyProblem;
use crate::domain::api_key::secret::ApiKeyText;
use crate::domain::caller::RuntimeCaller;
use crate::domain::ids::TenantId;
use crate::driver::reply::Reply;
use crate::store::admin::{AdminError, refused};
use crate::store::scripts::{INTROSPECT, VALIDATE_API_KEY};
use crate::store::{Arg, Store, StoreError};

/// What a key may do, as it is recorded.
#[derive(Debug, Clone, Default)]
pub struct Grant {
    /// Words between blanks; `None` where the record does not say.
    pub permissions: Option<String>,
    /// One entry a line; `None` for everywhere.
    pub scope_filter: Option<String>,
}

/// What `validate_api_key.lua` found.
#[derive(Debug)]
pub struct Validated {
    /// What is wrong with it.
    pub problem: Option<KeyProblem>,
    /// Whose key it is, where there is a record.
    pub owner: Option<TenantId>,
    /// From when on it is not good any more; only for who knows the secret.
    pub expires_at_ms: Option<i64>,
    /// What it may do; likewise.
    pub grant: Grant,
}

impl Store {
    /// Judges a key.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn validate_api_key(&self, key: &ApiKeyText) -> Result<Validated, StoreError> {
        let (key_id, hash) = (key.key_id(), key.hash());
        let key_names = [self.keys().api_key(key_id.partition(), key_id.as_str())];
        let tenant_prefix = self.keys().tenant(key_id.partition(), "");
        let args = [Arg::from(hash.as_str()), Arg::from(&tenant_prefix)];
        let reply = self.call(&VALIDATE_API_KEY, &key_names, &args).await?;
        let mut reply = Reply::new(&VALIDATE_API_KEY, reply)?;
        match reply.next_str()?.as_str() {
            "validated" => {}
            other => return Err(reply.unknown(other)),
        }
        let reason = reply.next_str()?;
        let problem = match reason.as_str() {
            "" => None,
            word => Some(KeyProblem::parse(word).ok_or_else(|| reply.unknown(word))?),
        };
        let owner = reply.opt_str()?.and_then(|owner| TenantId::parse(&owner));
        let mut validated = Validated {
            problem,
            owner,
            expires_at_ms: None,
            grant: Grant::default(),
        };
        if !reply.is_empty() {
            validated.expires_at_ms = reply.opt_i64()?;
            validated.grant = grant(&mut reply)?;
        }
        Ok(validated)
    }

    /// What the caller's key may do.
    ///
    /// # Errors
    /// That the key is not good.
    pub async fn introspect(&self, caller: &RuntimeCaller) -> Result<Grant, AdminError> {
        let (keys, partition) = (self.keys(), caller.partition);
        let key_names = [
            keys.api_key(partition, caller.key_id.as_str()),
            keys.tenant(partition, caller.tenant.as_str()),
        ];
        let args = [
            Arg::from(caller.key_hash.as_str()),
            Arg::from(caller.tenant.as_str()),
        ];
        let reply = self.call(&INTROSPECT, &key_names, &args).await?;
        let mut reply = Reply::new(&INTROSPECT, reply)?;
        match reply.next_str()?.as_str() {
            "introspected" => Ok(grant(&mut reply)?),
            other => Err(refused(other, reply)),
        }
    }
}

fn grant(reply: &mut Reply) -> Result<Grant, StoreError> {
    Ok(Grant {
        permissions: reply.opt_str()?,
        scope_filter: reply.opt_str()?,
    })
}
