//! `create_api_key.lua` and `revoke_api_key.lua`.

use super::Store;
use super::admin::{
    AdminError, Change, Pairs, Stored, moment, outcome, push_counted, push_day, push_pairs, refused,
};
use super::clock::Day;
use super::error::StoreError;
use super::script::{CREATE_API_KEY, REVOKE_API_KEY};
use crate::domain::admin_refusal::AdminRefusal;
use crate::domain::ids::TenantId;
use crate::domain::keys::KeyId;
use crate::domain::moment::Moment;
use crate::domain::reservation::Record;

/// A key to be recorded. The secret is not part of it.
#[derive(Debug)]
pub struct KeyRecord<'a> {
    /// Names the record; of the tenant's partition.
    pub key_id: &'a KeyId,
    /// Whose key.
    pub tenant: &'a TenantId,
    /// Digest of the whole key.
    pub key_hash: &'a str,
    /// `None`: 90 days from now.
    pub expires_at_ms: Option<i64>,
    /// The operator's name for it.
    pub name: &'a str,
    /// The stored form, a blank on either side of each word.
    pub permissions: &'a str,
    /// The whole key, sealed, where the outcome is kept for a repetition; else empty.
    pub sealed: &'a str,
    /// What only the record keeps.
    pub fields: &'a Pairs,
}

/// What `create_api_key.lua` did.
#[derive(Debug, Clone)]
pub enum KeyCreation {
    /// The key is good from now on.
    Created {
        /// The script's clock.
        created_at: Moment,
        /// From when on it is not good any more.
        expires_at: Moment,
        /// The key that was made by this request, or by the first one; empty where none is kept.
        sealed: String,
    },
    /// The random id has been used before; try another.
    Taken,
}

impl Store {
    /// Records a key.
    ///
    /// # Errors
    /// Refusals: tenant closed, unknown or suspended; an expiry in the past.
    pub async fn create_api_key(
        &self,
        key: &KeyRecord<'_>,
        change: &Change<'_>,
    ) -> Result<KeyCreation, AdminError> {
        let keys = self.keys();
        let (tenant, partition) = (key.tenant.as_str(), key.tenant.partition());
        let build = |day: Day| {
            let mut key_names = vec![
                keys.api_key(partition, key.key_id.as_str()),
                keys.api_keys(partition, tenant),
                keys.tenant(partition, tenant),
                keys.events(partition, tenant, day),
                keys.outbox(partition),
                keys.days(partition),
                keys.audit(partition, tenant, day),
                keys.chain(partition, tenant),
                keys.unsealed(partition),
            ];
            key_names.extend(
                change
                    .idempotency
                    .map(|key| keys.idempotency(partition, tenant, key)),
            );
            let mut args = vec![tenant.to_owned()];
            push_day(&mut args, day);
            let expires_at = key
                .expires_at_ms
                .map(|ms| ms.to_string())
                .unwrap_or_default();
            args.extend([key.key_id.as_str(), key.key_hash, &expires_at].map(str::to_owned));
            args.extend([key.name, key.permissions, change.cause].map(str::to_owned));
            args.extend([change.payload_hash, key.sealed].map(str::to_owned));
            push_counted(&mut args, key.fields);
            push_pairs(&mut args, change.audit);
            (key_names, args)
        };
        let (word, mut reply) = self.admin_call(&CREATE_API_KEY, build).await?;
        match outcome(word, &mut reply)?.as_str() {
            "created" => Ok(KeyCreation::Created {
                created_at: moment(&mut reply)?,
                expires_at: moment(&mut reply)?,
                sealed: reply.next_str()?,
            }),
            "taken" => Ok(KeyCreation::Taken),
            "tenant_suspended" => Err(AdminError::Refused(AdminRefusal::TenantNotActive)),
            other => Err(refused(other, reply)),
        }
    }

    /// A key's record.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn get_api_key(&self, key_id: &KeyId) -> Result<Option<Stored>, StoreError> {
        let key = self.keys().api_key(key_id.partition(), key_id.as_str());
        self.get_record(key).await
    }

    /// Ends a key of this tenant for good and returns its record.
    ///
    /// # Errors
    /// Refusals: tenant closed, no such key, revoked already.
    pub async fn revoke_api_key(
        &self,
        key_id: &KeyId,
        tenant: &TenantId,
        reason: Option<&str>,
        change: &Change<'_>,
    ) -> Result<Record, AdminError> {
        let (keys, partition, tenant) = (self.keys(), key_id.partition(), tenant.as_str());
        let build = |day: Day| {
            let mut key_names = vec![
                keys.api_key(partition, key_id.as_str()),
                keys.tenant(partition, tenant),
                keys.events(partition, tenant, day),
                keys.outbox(partition),
                keys.days(partition),
                keys.audit(partition, tenant, day),
                keys.chain(partition, tenant),
                keys.unsealed(partition),
            ];
            key_names.extend(
                change
                    .idempotency
                    .map(|key| keys.idempotency(partition, tenant, key)),
            );
            let mut args = vec![tenant.to_owned()];
            push_day(&mut args, day);
            args.extend([key_id.as_str(), reason.unwrap_or_default()].map(str::to_owned));
            args.extend([change.payload_hash, change.cause].map(str::to_owned));
            push_pairs(&mut args, change.audit);
            (key_names, args)
        };
        let (word, mut reply) = self.admin_call(&REVOKE_API_KEY, build).await?;
        match outcome(word, &mut reply)?.as_str() {
            "revoked" => Ok(Record::from_pairs(reply.rest()?)),
            "not_found" => Err(AdminError::Refused(AdminRefusal::KeyNotFound)),
            other => Err(refused(other, reply)),
        }
    }
}
