//! API keys: create, change, revoke, list and validate them.

mod list;
mod validate;

pub use list::{ApiKeyFilter, ApiKeyQuery, ApiKeySort};
pub use validate::{Granted, ValidatedApiKey};

use std::fmt;

use super::audit::entry;
use super::{Admin, AdminError, Parts, Request, refuse};
use crate::domain::api_key::permission::Permission;
use crate::domain::api_key::secret::{ApiKeyText, KeyId};
use crate::domain::api_key::{ApiKey, ApiKeyCreateRequest, ApiKeyUpdateRequest};
use crate::domain::cause::Actor;
use crate::domain::ids::TenantId;
use crate::domain::moment::Moment;
use crate::domain::record::{FieldChange, Stored as _, set_fields};
use crate::domain::refusal::admin::AdminRefusal;
use crate::store::ExtraTrip;
use crate::store::admin::Pairs;
use crate::store::admin::api_keys::{
    CreateApiKey, CreateApiKeyReply, RevokeApiKey, RevokeApiKeyReply, UpdateApiKey,
    UpdateApiKeyReply,
};
use crate::store::signature::Counted;

/// Two random ids of 62 bits that are taken already are one too many.
const DRAWS_MAX: usize = 2;

/// A key that was just issued, the only time that its text is known.
pub struct CreatedApiKey {
    /// The whole key.
    pub key: ApiKeyText,
    /// Whose key.
    pub tenant_id: TenantId,
    /// What it may do.
    pub permissions: Vec<Permission>,
    /// On the store's clock.
    pub created_at: Moment,
    /// On the store's clock.
    pub expires_at: Moment,
}

impl fmt::Debug for CreatedApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CreatedApiKey({:?})", self.key)
    }
}

impl Admin {
    /// Issues a key. Repeating the call issues another, but under its idempotency key brings the first one back, which is
    /// kept for that, sealed.
    ///
    /// # Errors
    /// Refusals: tenant closed, unknown or suspended; an expiry in the past.
    pub async fn create_api_key(
        &self,
        new: &ApiKeyCreateRequest,
        request: &Request<'_>,
    ) -> Result<CreatedApiKey, AdminError> {
        let Some(tenant_id) = TenantId::parse(&new.tenant_id) else {
            return refuse(AdminRefusal::OwnerNotFound);
        };
        let permissions = new.permissions.as_deref().unwrap_or(&Permission::DEFAULT);
        let permissions = permissions.to_vec();
        let granted = permissions.to_field("permissions").unwrap_or_default();
        if request.idempotency_key.is_some() && !self.sealing.is_present() {
            return refuse(AdminRefusal::NotRepeatable);
        }
        let sealed_for = format!("createApiKey/{tenant_id}");
        let mut draws = 0;
        loop {
            let key = ApiKeyText::generate(self.vendor_prefix, tenant_id.partition());
            let (key_id, key_hash) = (key.key_id(), key.hash());
            let mut fields = vec![("key_prefix", key.visible_prefix().to_owned())];
            fields.extend(set_fields(new.fields()));
            let mut audit = entry(request.cause, "createApiKey", "api_key", key_id.as_str());
            audit.extend([
                ("status", "201".to_owned()),
                ("metadata.name", new.name.clone()),
                ("metadata.permissions", granted.clone()),
            ]);
            push_key_id(&mut audit, request, key_id);
            let parts = Parts::of(request, "createApiKey", audit);
            let sealed = match request.idempotency_key {
                Some(_) => self.sealing.seal(key.expose(), &sealed_for),
                None => String::new(),
            };
            let call = CreateApiKey {
                partition: tenant_id.partition(),
                change: &parts.change(),
                tenant: tenant_id.as_str(),
                key_id: key_id.as_str(),
                key_hash: key_hash.as_str(),
                requested_expires_at_ms: new.expires_at.map(Moment::as_ms),
                name: &new.name,
                permissions: &granted,
                sealed: &sealed,
                registered_ms: self.store.register_api_key(key_id).await?,
                fields: Counted(&fields),
            };
            match self.store.create_api_key(&call).await? {
                CreateApiKeyReply::Created {
                    created_at,
                    expires_at,
                    sealed,
                }
                | CreateApiKeyReply::Replayed {
                    created_at,
                    expires_at,
                    sealed,
                    ..
                } => {
                    let key = self.first_key(key, &sealed, &sealed_for)?;
                    self.key_owners
                        .insert(key.key_id().clone(), tenant_id.clone());
                    return Ok(CreatedApiKey {
                        key,
                        tenant_id,
                        permissions,
                        created_at,
                        expires_at,
                    });
                }
                CreateApiKeyReply::Taken => draws += 1,
            }
            if draws == DRAWS_MAX {
                return refuse(AdminRefusal::Corrupt("random key id".to_owned()));
            }
        }
    }

    /// The key that the outcome is about: of this request, or of the first one under its idempotency key.
    fn first_key(
        &self,
        own: ApiKeyText,
        sealed: &str,
        sealed_for: &str,
    ) -> Result<ApiKeyText, AdminError> {
        if sealed.is_empty() {
            return Ok(own);
        }
        let opened = self.sealing.open(sealed, sealed_for).ok();
        let key = opened.and_then(|text| ApiKeyText::parse(&text, &[self.vendor_prefix]));
        key.ok_or_else(|| AdminRefusal::Corrupt("kept outcome of createApiKey".to_owned()).into())
    }

    /// Whose key this is, where there is such a key. The first use of an id on this replica costs a look-up.
    ///
    /// # Errors
    /// Only of the store.
    pub async fn owner_of_key(&self, key_id: &str) -> Result<Option<TenantId>, AdminError> {
        let Some(key_id) = KeyId::parse(key_id) else {
            return Ok(None);
        };
        if let Some(owner) = self.key_owners.get(&key_id) {
            return Ok(Some(owner));
        }
        self.store.metrics().extra_trip(ExtraTrip::Owner);
        let owner = self.store.tenant_of_key(&key_id).await?;
        if let Some(owner) = &owner {
            self.key_owners.insert(key_id, owner.clone());
        }
        Ok(owner)
    }

    /// Changes a key that is still good; its next use is judged by what it is then, on every replica.
    ///
    /// # Errors
    /// Refusals: the owner is closed, no such key, one that has been revoked or has expired.
    pub async fn update_api_key(
        &self,
        key_id: &str,
        owner: &TenantId,
        update: &ApiKeyUpdateRequest,
        request: &Request<'_>,
    ) -> Result<ApiKey, AdminError> {
        let Some(key_id) = KeyId::parse(key_id).filter(|id| id.partition() == owner.partition())
        else {
            return refuse(AdminRefusal::KeyNotFound);
        };
        let mut audit = entry(request.cause, "updateApiKey", "api_key", key_id.as_str());
        audit.push(("status", "200".to_owned()));
        audit.extend(told(update));
        push_key_id(&mut audit, request, &key_id);
        let parts = Parts::of(request, "updateApiKey", audit);
        let call = UpdateApiKey {
            partition: key_id.partition(),
            change: &parts.change(),
            tenant: owner.as_str(),
            key_id: key_id.as_str(),
            fields: Counted(update.fields().iter().map(FieldChange::sent).collect()),
        };
        let UpdateApiKeyReply::Updated { record } = self.store.run(&call).await??;
        // Only a key whose time is not over is changed.
        Ok(ApiKey::judged(&key_id, &record.0, 0)?)
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
        let call = RevokeApiKey {
            partition: key_id.partition(),
            change: &parts.change(),
            tenant: owner.as_str(),
            key_id: key_id.as_str(),
            reason,
        };
        let RevokeApiKeyReply::Revoked { record } = self.store.run(&call).await??;
        Ok(ApiKey::judged(&key_id, &record.0, 0)?)
    }
}

/// What the audit entry tells of a change, lists with blanks between.
fn told(update: &ApiKeyUpdateRequest) -> Pairs {
    let told = update.fields().into_iter();
    let told =
        told.filter(|change| ["permissions", "scope_filter", "name"].contains(&change.member));
    told.map(|change| {
        let value = change.value.unwrap_or_default();
        (change.audited, value.replace('\n', " "))
    })
    .collect()
}

/// An entry about a key names that key, unless a key is acting.
fn push_key_id(audit: &mut Pairs, request: &Request<'_>, key_id: &KeyId) {
    if !matches!(request.cause.actor, Actor::ApiKey(_)) {
        audit.push(("key_id", key_id.to_string()));
    }
}
