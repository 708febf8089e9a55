//! Checks an API key: whether it is valid, and what it may do.

use tracing::error;

use crate::admin::Admin;
use crate::domain::api_key::KeyProblem;
use crate::domain::api_key::permission::Permission;
use crate::domain::api_key::secret::{ApiKeyText, KeyId};
use crate::domain::caller::RuntimeCaller;
use crate::domain::ids::TenantId;
use crate::domain::moment::Moment;
use crate::domain::scope::ScopeFilter;
use crate::store::StoreError;
use crate::store::admin::api_key_checks::{Grant, ValidateApiKeyReply};

/// Permissions and scopes of a key.
#[derive(Debug, Clone, Default)]
pub struct Granted {
    /// In the order in which they were granted.
    pub permissions: Vec<Permission>,
    /// To which scopes it is restricted.
    pub scope_filter: ScopeFilter,
}

/// The result of the check of a key.
#[derive(Debug)]
pub struct ValidatedApiKey {
    /// The record that the key leads to.
    pub key_id: Option<KeyId>,
    /// The tenant of that record.
    pub owner: Option<TenantId>,
    /// When the key expires; only if the whole key was presented.
    pub expires_at: Option<Moment>,
    /// Its permissions, or why it is invalid.
    pub outcome: Result<Granted, KeyProblem>,
}

impl Admin {
    /// Judges a key. The checks run in the order secret, status, expiry, tenant, and the first that fails is reported: without
    /// the secret nothing is learned of the rest.
    ///
    /// # Errors
    /// Only that the store cannot answer.
    pub async fn validate_api_key(&self, key: &ApiKeyText) -> Result<ValidatedApiKey, StoreError> {
        let ValidateApiKeyReply::Validated {
            reason: problem,
            owner,
            expires_at_ms,
            permissions_scope_filter: grant,
        } = match self.store.validate_api_key(key).await {
            Err(failure @ StoreError::Script { .. }) => {
                let id = key.key_id();
                error!(key.id = %id, error = %failure, "the API key `{id}` cannot be validated: {failure}");
                return Ok(ValidatedApiKey {
                    key_id: Some(id.clone()),
                    owner: None,
                    expires_at: None,
                    outcome: Err(KeyProblem::InternalError),
                });
            }
            validated => validated?,
        };
        let found = problem != Some(KeyProblem::KeyNotFound);
        Ok(ValidatedApiKey {
            key_id: found.then(|| key.key_id().clone()),
            owner: owner.and_then(|owner| TenantId::parse(&owner)),
            expires_at: expires_at_ms.and_then(Moment::from_ms),
            outcome: match problem {
                Some(problem) => Err(problem),
                None => Ok(granted(grant)),
            },
        })
    }

    /// Permissions of the caller's key.
    ///
    /// # Errors
    /// That the key is not good.
    pub async fn introspect(&self, caller: &RuntimeCaller) -> Result<Granted, StoreError> {
        self.store.introspect(caller).await.map(granted)
    }
}

fn granted(grant: Grant) -> Granted {
    Granted {
        permissions: Permission::from_stored(grant.permissions.as_deref().unwrap_or_default()),
        scope_filter: ScopeFilter::from_stored(grant.scope_filter.as_deref().unwrap_or_default()),
    }
}
