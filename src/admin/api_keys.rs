//! API keys: issued, ended.

use std::fmt;

use super::audit::entry;
use super::{Admin, AdminError, Parts, Request, refuse};
use crate::domain::admin_refusal::AdminRefusal;
use crate::domain::api_key::ApiKey;
use crate::domain::cause::Actor;
use crate::domain::ids::TenantId;
use crate::domain::keys::{ApiKeyText, KeyId};
use crate::domain::permission::Permission;
use crate::store::api_keys::{KeyCreation, KeyRecord};

/// Two random ids of 62 bits that are taken already are one too many.
const DRAWS_MAX: usize = 2;

/// A key to be issued.
#[derive(Debug)]
pub struct NewApiKey {
    /// Whose key; as it was sent, perhaps not even an id.
    pub tenant_id: String,
    /// The operator's name for it.
    pub name: String,
    /// The operator's words about it.
    pub description: Option<String>,
    /// `None`: the default set. An empty list: nothing.
    pub permissions: Option<Vec<Permission>>,
    /// To which scopes it is restricted.
    pub scope_filter: Vec<String>,
    /// `None`: 90 days from now.
    pub expires_at_ms: Option<i64>,
    /// The operator's own, a JSON object.
    pub metadata: Option<String>,
}

/// A key that was just issued, the only time that its text is known.
pub struct CreatedApiKey {
    /// The whole key.
    pub key: ApiKeyText,
    /// Whose key.
    pub tenant_id: TenantId,
    /// What it may do.
    pub permissions: Vec<Permission>,
    /// On the store's clock.
    pub created_at_ms: i64,
    /// On the store's clock.
    pub expires_at_ms: i64,
}

impl fmt::Debug for CreatedApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CreatedApiKey({:?})", self.key)
    }
}

impl Admin {
    /// Issues a key. Repeating the call issues another: the text is stored nowhere, so an idempotency key cannot bring it
    /// back and must not be accepted for this operation.
    ///
    /// # Errors
    /// Refusals: tenant closed, unknown or suspended; an expiry in the past.
    pub async fn create_api_key(
        &self,
        new: &NewApiKey,
        request: &Request<'_>,
    ) -> Result<CreatedApiKey, AdminError> {
        let Some(tenant_id) = TenantId::parse(&new.tenant_id) else {
            return refuse(AdminRefusal::OwnerNotFound);
        };
        let permissions = new.permissions.as_deref().unwrap_or(Permission::DEFAULT);
        let stored_permissions = Permission::stored(permissions);
        let mut draws = 0;
        loop {
            let key = ApiKeyText::generate(self.vendor_prefix, tenant_id.partition());
            let (key_id, key_hash) = (key.key_id(), key.hash());
            let mut fields = vec![("key_prefix", key.visible_prefix().to_owned())];
            let scope_filter = stored_filter(&new.scope_filter);
            let optional = [
                ("description", new.description.clone()),
                (
                    "scope_filter",
                    (!scope_filter.is_empty()).then_some(scope_filter),
                ),
                ("metadata", new.metadata.clone()),
            ];
            fields.extend(
                optional
                    .into_iter()
                    .filter_map(|(name, value)| Some((name, value?))),
            );
            let mut audit = entry(request.cause, "createApiKey", "api_key", key_id.as_str());
            audit.extend([
                ("status", "201".to_owned()),
                ("metadata.name", new.name.clone()),
                ("metadata.permissions", stored_permissions.clone()),
            ]);
            push_key_id(&mut audit, request, key_id);
            let parts = Parts::of(request, "createApiKey", audit);
            let record = KeyRecord {
                key_id,
                tenant: &tenant_id,
                key_hash: key_hash.as_str(),
                expires_at_ms: new.expires_at_ms,
                name: &new.name,
                permissions: &stored_permissions,
                fields: &fields,
            };
            match self.store.create_api_key(&record, &parts.change()).await? {
                KeyCreation::Created {
                    now_ms,
                    expires_at_ms,
                } => {
                    return Ok(CreatedApiKey {
                        key,
                        tenant_id,
                        permissions: permissions.to_vec(),
                        created_at_ms: now_ms,
                        expires_at_ms,
                    });
                }
                KeyCreation::Taken => draws += 1,
            }
            if draws == DRAWS_MAX {
                return refuse(AdminRefusal::Corrupt("random key id".to_owned()));
            }
        }
    }

    /// Whose key this is, where there is such a key.
    ///
    /// # Errors
    /// A record that cannot be read.
    pub async fn owner_of_key(&self, key_id: &str) -> Result<Option<TenantId>, AdminError> {
        let Some(key_id) = KeyId::parse(key_id) else {
            return Ok(None);
        };
        let Some(stored) = self.store.get_api_key(&key_id).await? else {
            return Ok(None);
        };
        Ok(Some(stored.record.word("tenant", TenantId::parse)?))
    }

    /// Ends a key for good; its next use is refused, on every replica.
    ///
    /// # Errors
    /// Refusals: the owner is closed, no such key, revoked already.
    pub async fn revoke_api_key(
        &self,
        key_id: &str,
        owner: &TenantId,
        reason: Option<&str>,
        request: &Request<'_>,
    ) -> Result<ApiKey, AdminError> {
        let Some(key_id) = KeyId::parse(key_id).filter(|id| id.partition() == owner.partition())
        else {
            return refuse(AdminRefusal::KeyNotFound);
        };
        let mut audit = entry(request.cause, "revokeApiKey", "api_key", key_id.as_str());
        audit.push(("status", "200".to_owned()));
        audit.extend(reason.map(|reason| ("metadata.reason", reason.to_owned())));
        push_key_id(&mut audit, request, &key_id);
        let parts = Parts::of(request, "revokeApiKey", audit);
        let record = self
            .store
            .revoke_api_key(&key_id, owner, reason, &parts.change())
            .await?;
        Ok(ApiKey::from_record(key_id.as_str(), &record, 0)?)
    }
}

/// An entry about a key names that key, unless a key is acting.
fn push_key_id(audit: &mut crate::store::admin::Pairs, request: &Request<'_>, key_id: &KeyId) {
    if !matches!(request.cause.actor, Actor::ApiKey(_)) {
        audit.push(("key_id", key_id.to_string()));
    }
}

/// Lower case, separated by blanks. An entry that is blank or holds a blank can match nothing, so it becomes one that
/// matches nothing: dropping it could leave a filter that admits everything.
fn stored_filter(entries: &[String]) -> String {
    let word = |entry: &String| match entry.is_empty() || entry.contains(char::is_whitespace) {
        true => "*".to_owned(),
        false => entry.to_lowercase(),
    };
    entries.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_matches_nothing_never_becomes_none() {
        let stored = |entries: &[&str]| {
            stored_filter(&entries.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(stored(&[]), "");
        assert_eq!(stored(&["Agent:*", "app:X"]), "agent:* app:x");
        assert_eq!(stored(&[""]), "*");
        assert_eq!(stored(&["app:x y"]), "*");
    }
}
