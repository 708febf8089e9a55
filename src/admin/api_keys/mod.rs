//! API keys: create, change, revoke, list and validate them.

mod list;
mod validate;

pub use list::{ApiKeyFilter, ApiKeyQuery, ApiKeySort};
pub use validate::{Granted, ValidatedApiKey};

use super::{Admin, Change, Request, refuse};
use crate::domain::api_key::permission::ApiKeyStatus;
use crate::domain::api_key::secret::{ApiKeyText, KeyId};
use crate::domain::api_key::{
    ApiKey, ApiKeyCreateRequest, ApiKeyCreateResponse, ApiKeyUpdateRequest,
};
use crate::domain::cause::Actor;
use crate::domain::ids::TenantId;
use crate::domain::moment::Moment;
use crate::domain::record::{FieldChange, Stored as _, set_fields};
use crate::domain::refusal::{AccessRefusal, ApiKeyRefusal, Refusal, TenantRefusal};
use crate::domain::scope::ScopeFilter;
use crate::store::admin::Pairs;
use crate::store::admin::api_keys::{
    CreateApiKey, CreateApiKeyReply, RevokeApiKey, RevokeApiKeyReply, UpdateApiKey,
    UpdateApiKeyReply,
};
use crate::store::signature::{Counted, Refused};
use crate::store::target::{Creation, Target};
use crate::store::{ExtraRoundTrip, StoreError};

/// An API key of a tenant.
pub(super) struct KeyTarget {
    pub(super) key_id: KeyId,
    pub(super) tenant: TenantId,
}

impl Target for KeyTarget {
    fn tenant(&self) -> Option<&TenantId> {
        Some(&self.tenant)
    }

    fn refusal(&self, refused: &Refused) -> Option<Refusal> {
        use ApiKeyRefusal as R;
        let key_id = self.key_id.to_string();
        let refusal = match *refused {
            Refused::ApiKeyNotFound => R::NotFound(key_id),
            Refused::KeyRevoked => R::Revoked(key_id),
            Refused::KeyEnded { status } => R::Ended { key_id, status },
            Refused::ExpiresInThePast => R::ExpiresInThePast,
            _ => return None,
        };
        Some(refusal.into())
    }
}

impl KeyTarget {
    /// What the script is given of a change. An entry about a key names that key, unless a key is acting.
    fn change<'a>(
        &self,
        request: &Request<'a>,
        operation: &'static str,
        status: u16,
    ) -> Change<'a> {
        let key_id = self.key_id.as_str();
        let mut change = Change::new(request, operation, ("api_key", key_id), Some(status));
        if !matches!(request.cause.actor, Actor::ApiKey(_)) {
            change.audit.push(("key_id", key_id.to_owned()));
        }
        change
    }
}

impl Admin {
    /// Issues a key. Repeating the call issues another, but under its idempotency key returns the first one, which is
    /// stored sealed for that.
    ///
    /// # Errors
    /// Refusals: tenant closed, unknown or suspended; an expiry in the past; as many as the tenant may have.
    pub async fn create_api_key(
        &self,
        new: &ApiKeyCreateRequest,
        request: &Request<'_>,
    ) -> Result<ApiKeyCreateResponse, StoreError> {
        let Some(tenant) = TenantId::parse(&new.tenant_id) else {
            return refuse(TenantRefusal::OwnerNotFound(new.tenant_id.clone()));
        };
        let issued = async {
            check_scopes(&tenant, new.scope_filter.as_ref())?;
            let words = self.dialect.words();
            let permissions = new.permissions.as_deref();
            let permissions = permissions.unwrap_or(words.default_permissions).to_vec();
            let granted = permissions.to_field("permissions").unwrap_or_default();
            if request.idempotency_key.is_some() && !self.sealing.is_present() {
                return refuse(AccessRefusal::NotRepeatable);
            }
            let sealed_for = format!("createApiKey/{tenant}");
            let key = ApiKeyText::generate(words.api_key_prefix, tenant.partition());
            let target = KeyTarget {
                key_id: key.key_id().clone(),
                tenant: tenant.clone(),
            };
            let key_hash = key.hash();
            let mut fields = vec![("key_prefix", key.visible_prefix().to_owned())];
            fields.extend(set_fields(new.fields()));
            let resource = ("api_key", target.key_id.as_str());
            let mut change = Change::new(request, "createApiKey", resource, Some(201));
            let filter = new.scope_filter.as_ref();
            let filter = filter.filter(|filter| !filter.is_unrestricted());
            let scopes = filter.map(|filter| filter.entries().join(" "));
            let actor = request.cause.actor.as_str();
            change.add("metadata.actor_type", Some(actor));
            change.add("metadata.name", Some(&new.name));
            change.add("metadata.permissions", Some(&granted));
            let by_default = new.writes_by_default(self.dialect).then_some(true);
            change.add("metadata.default_permissions", by_default);
            change.add("metadata.scope_filter", scopes);
            let sealed = match request.idempotency_key {
                Some(_) => self.sealing.seal(key.expose(), &sealed_for),
                None => String::new(),
            };
            let call = CreateApiKey {
                change: &change,
                tenant: &tenant,
                key_id: &target.key_id,
                key_hash: key_hash.as_str(),
                requested_expires_at_ms: new.expires_at.map(Moment::as_ms),
                name: &new.name,
                permissions: &granted,
                sealed: &sealed,
                registered_ms: self.store.register_api_key(&target.key_id).await?,
                limit: self.limits.api_keys,
                fields: Counted(&fields),
            };
            let creation = Creation::new(true, &target);
            let reply = self.store.create_api_key(&creation, &call).await?;
            let is_replay = matches!(reply, CreateApiKeyReply::Replayed { .. });
            let (CreateApiKeyReply::Created {
                created_at,
                expires_at,
                sealed,
            }
            | CreateApiKeyReply::Replayed {
                created_at,
                expires_at,
                sealed,
                ..
            }) = reply
            else {
                return Err(StoreError::Corrupt("random key id".to_owned()));
            };
            let key = self.first_key(key, &sealed, &sealed_for)?;
            if is_replay {
                self.check_active(key.key_id()).await?;
            }
            self.key_owners.insert(key.key_id().clone(), tenant.clone());
            Ok::<_, StoreError>(ApiKeyCreateResponse {
                key_id: key.key_id().clone(),
                key_secret: key.expose().to_owned(),
                key_prefix: key.visible_prefix().to_owned(),
                tenant_id: tenant.clone(),
                permissions,
                created_at,
                expires_at,
            })
        };
        tenant.about(issued.await)
    }

    /// Refuses to show a key again that has ended.
    async fn check_active(&self, key_id: &KeyId) -> Result<(), StoreError> {
        let keys = self.store.keys();
        let key = keys.api_key(key_id.partition(), key_id.as_str());
        let mut records = self.store.records([key], &["status"]).await?;
        let record = records.pop().transpose()?;
        let status = record.as_ref().and_then(|record| record.get("status"));
        match status.and_then(ApiKeyStatus::parse) {
            Some(ApiKeyStatus::Active) => Ok(()),
            None => refuse(ApiKeyRefusal::NotFound(key_id.to_string())),
            Some(status) => {
                let key_id = key_id.clone();
                refuse(ApiKeyRefusal::EndedSince { key_id, status })
            }
        }
    }

    /// The key that the outcome is about: of this request, or of the first one under its idempotency key.
    fn first_key(
        &self,
        own: ApiKeyText,
        sealed: &str,
        sealed_for: &str,
    ) -> Result<ApiKeyText, StoreError> {
        if sealed.is_empty() {
            return Ok(own);
        }
        let opened = self.sealing.open(sealed, sealed_for).ok();
        let prefix = self.dialect.words().api_key_prefix;
        let key = opened.and_then(|text| ApiKeyText::parse(&text, &[prefix]));
        key.ok_or_else(|| StoreError::Corrupt("kept outcome of createApiKey".to_owned()))
    }

    /// The tenant of a key, if the key exists. The first use of an id on this replica costs a look-up.
    ///
    /// # Errors
    /// Only of the store.
    pub async fn owner_of_key(&self, key_id: &KeyId) -> Result<Option<TenantId>, StoreError> {
        let look_up = || self.store.tenant_of_key(key_id);
        self.owner_of(&self.key_owners, key_id, ExtraRoundTrip::FirstUse, look_up)
            .await
    }

    /// The key that a request names, with its owner.
    async fn key_target(&self, sent: &str) -> Result<KeyTarget, StoreError> {
        let key_id = KeyId::parse(sent);
        let owner = match &key_id {
            Some(key_id) => self.owner_of_key(key_id).await?,
            None => None,
        };
        match key_id
            .zip(owner)
            .filter(|(key_id, tenant)| key_id.partition() == tenant.partition())
        {
            Some((key_id, tenant)) => Ok(KeyTarget { key_id, tenant }),
            None => refuse(ApiKeyRefusal::NotFound(sent.to_owned())),
        }
    }

    /// Changes a key that is still good; its next use is judged by what it is then, on every replica.
    ///
    /// # Errors
    /// Refusals: the owner is closed, no such key, one that has been revoked or has expired.
    pub async fn update_api_key(
        &self,
        key_id: &str,
        update: &ApiKeyUpdateRequest,
        request: &Request<'_>,
    ) -> Result<ApiKey, StoreError> {
        let target = self.key_target(key_id).await?;
        target.about(check_scopes(&target.tenant, update.scope_filter.as_ref()))?;
        let mut change = target.change(request, "updateApiKey", 200);
        change.audit.extend(audit_fields(update));
        let call = UpdateApiKey {
            change: &change,
            tenant: &target.tenant,
            key_id: &target.key_id,
            fields: Counted(update.fields().iter().map(FieldChange::sent).collect()),
        };
        let UpdateApiKeyReply::Updated { record } = target.run(&self.store, &call).await?;
        // Only a key whose time is not over is changed.
        target.about(ApiKey::judged(&target.key_id, &record.0, 0))
    }

    /// Ends a key for good; its next use is refused, on every replica.
    ///
    /// # Errors
    /// Refusals: the owner is closed, no such key, revoked already.
    pub async fn revoke_api_key(
        &self,
        key_id: &str,
        reason: Option<&str>,
        request: &Request<'_>,
    ) -> Result<ApiKey, StoreError> {
        let target = self.key_target(key_id).await?;
        let mut change = target.change(request, "revokeApiKey", 200);
        change.add("metadata.reason", reason);
        let call = RevokeApiKey {
            change: &change,
            tenant: &target.tenant,
            key_id: &target.key_id,
            reason,
        };
        let RevokeApiKeyReply::Revoked { record } = target.run(&self.store, &call).await?;
        target.about(ApiKey::judged(&target.key_id, &record.0, 0))
    }
}

/// A key acts in its own tenant alone, so a path of another one is a mistake.
fn check_scopes(tenant: &TenantId, filter: Option<&ScopeFilter>) -> Result<(), StoreError> {
    match filter.and_then(|filter| filter.outside(tenant)) {
        None => Ok(()),
        Some((index, entry)) => refuse(ApiKeyRefusal::ScopeOutside {
            index,
            entry: entry.to_owned(),
            tenant: tenant.clone(),
        }),
    }
}

/// The metadata of a change for its audit entry, lists with blanks between.
fn audit_fields(update: &ApiKeyUpdateRequest) -> Pairs {
    let changes = update.fields().into_iter();
    let changes = changes.filter_map(|change| {
        let value = change.value.unwrap_or_default().replace('\n', " ");
        let is_recorded = ["permissions", "scope_filter", "name"].contains(&change.member);
        is_recorded.then_some((change.audited, value))
    });
    changes.collect()
}
