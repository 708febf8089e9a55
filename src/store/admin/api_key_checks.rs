//! `validate_api_key.lua` and `introspect.lua`: check an API key.

use crate::domain::api_key::KeyProblem;
use crate::domain::api_key::secret::{ApiKeyText, KeyHash, KeyId};
use crate::domain::caller::RuntimeCaller;
use crate::driver::reply::{FromReply, Reply};
use crate::store::signature::signature;
use crate::store::target::Target as _;
use crate::store::{Lane, Store, StoreError, outcome};

signature! {
    /// Judges an API key for an operator who was given it, and finds its owner.
    ///
    /// reason is '' for a good key, else the first that applies: KEY_NOT_FOUND, INVALID_KEY, KEY_REVOKED, KEY_EXPIRED,
    /// KEY_NOT_OWNED_BY_TENANT, TENANT_NOT_FOUND, INTERNAL_ERROR, TENANT_CLOSED, TENANT_SUSPENDED. The fields behind the
    /// owner follow only where the secret is right.
    VALIDATE_API_KEY: ValidateApiKey -> ValidateApiKeyReply = "admin/api_keys/validate_api_key", flags "no-writes,allow-oom";
    names { key_id: &'a KeyId }
    keys of partition of key_id { read api_key(key_id); }
    builds { read tenant() }
    args { key_hash: &'a KeyHash }
    replies {
        validated: Validated {
            reason: Option<KeyProblem>, owner: Option<String>, expires_at_ms: Option<i64>, permissions_scope_filter: Grant,
        },
    }
    writes "Nothing."
}

signature! {
    /// Says what an API key may do.
    INTROSPECT: Introspect -> IntrospectReply = "admin/api_keys/introspect", flags "no-writes,allow-oom";
    names { caller: &'a RuntimeCaller, key_id of caller }
    keys of partition of caller { read api_key(key_id), tenant_key: tenant(tenant); }
    args { key_hash of caller, tenant of caller }
    replies {
        unauthorized, introspected: Introspected { permissions_scope_filter: Grant },
    }
    writes "Nothing."
}

/// The recorded permissions of a key.
#[derive(Debug, Clone, Default)]
pub struct Grant {
    /// Words between blanks; `None` in a damaged record, which grants nothing.
    pub permissions: Option<String>,
    /// One entry a line; `None` for everywhere.
    pub scope_filter: Option<String>,
}

impl FromReply for Grant {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        Ok(Self {
            permissions: reply.read()?,
            scope_filter: reply.read()?,
        })
    }
}

/// Empty for a good key.
impl FromReply for Option<KeyProblem> {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        let word = reply.read::<String>()?;
        let parsed = || KeyProblem::parse(&word).ok_or_else(|| reply.unknown(&word));
        (!word.is_empty()).then(parsed).transpose()
    }
}

impl Store {
    /// Judges a key.
    pub async fn validate_api_key(
        &self,
        key: &ApiKeyText,
    ) -> Result<ValidateApiKeyReply, StoreError> {
        let call = ValidateApiKey {
            key_id: key.key_id(),
            key_hash: &key.hash(),
        };
        outcome(self.run(Lane::Request, &call).await)
    }

    /// Permissions of the caller's key.
    ///
    /// # Errors
    /// That the key is not good.
    pub async fn introspect(&self, caller: &RuntimeCaller) -> Result<Grant, StoreError> {
        let IntrospectReply::Introspected {
            permissions_scope_filter,
        } = caller
            .tenant
            .outcome(self.run(Lane::Request, &Introspect { caller }).await)?;
        Ok(permissions_scope_filter)
    }
}
