//! `register_api_key.lua`, `create_api_key.lua`, `update_api_key.lua` and `revoke_api_key.lua`.

use tracing::warn;

use crate::domain::api_key::permission::ApiKeyStatus;
use crate::domain::api_key::secret::KeyId;
use crate::domain::ids::TenantId;
use crate::domain::moment::Moment;
use crate::domain::record::{FieldChange, Record};
use crate::domain::refusal::admin::AdminRefusal;
use crate::driver::clock::Day;
use crate::driver::error::StoreError;
use crate::driver::reply::Reply;
use crate::store::admin::{
    AdminError, Change, Pairs, moment, outcome, push_counted, push_day, push_pairs, refused,
};
use crate::store::scripts::{CREATE_API_KEY, REGISTER_API_KEY, REVOKE_API_KEY, UPDATE_API_KEY};
use crate::store::{Arg, Store};

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
    /// Records a key. The directory learns of it first, so that no key is ever missing there; its readers pass over an
    /// entry without a record.
    ///
    /// # Errors
    /// Refusals: tenant closed, unknown or suspended; an expiry in the past.
    pub async fn create_api_key(
        &self,
        key: &KeyRecord<'_>,
        change: &Change<'_>,
    ) -> Result<KeyCreation, AdminError> {
        let registered_ms = self.register_api_key(key.key_id).await?;
        let (word, mut reply) = self.record_api_key(key, registered_ms, change).await?;
        // Anything else recorded no key of this id, save that there was one.
        if !["created", "taken"].contains(&word.as_str()) {
            self.unregister_api_key(key.key_id).await;
        }
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

    /// Enters a key into the directory; the time that it stands under there.
    async fn register_api_key(&self, key_id: &KeyId) -> Result<i64, StoreError> {
        let directory = [self.keys().api_key_directory()];
        let args = [Arg::from(key_id.as_str())];
        let reply = self.call(&REGISTER_API_KEY, &directory, &args).await?;
        let mut reply = Reply::new(&REGISTER_API_KEY, reply)?;
        match reply.next_str()?.as_str() {
            "registered" => reply.next_i64(),
            other => Err(reply.unknown(other)),
        }
    }

    /// Takes out an entry that came to nothing. One that stays does no harm.
    async fn unregister_api_key(&self, key_id: &KeyId) {
        let directory = self.keys().api_key_directory();
        let mut leave = redis::cmd("ZREM");
        leave.arg(&directory).arg(key_id.as_str());
        if let Err(error) = self.query(&directory, &leave).await {
            warn!(key.id = %key_id, error = %error, "the directory keeps `{key_id}`, which no key has: {error}");
        }
    }

    async fn record_api_key(
        &self,
        key: &KeyRecord<'_>,
        registered_ms: i64,
        change: &Change<'_>,
    ) -> Result<(String, Reply), StoreError> {
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
                keys.expiring(partition),
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
            args.push(registered_ms.to_string());
            push_counted(&mut args, key.fields);
            push_pairs(&mut args, change.audit);
            (key_names, args)
        };
        self.admin_call(&CREATE_API_KEY, build).await
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
        let build = |day: Day| {
            let mut args = vec![tenant.to_string()];
            push_day(&mut args, day);
            args.extend([key_id.as_str(), reason.unwrap_or_default()].map(str::to_owned));
            args.extend([change.payload_hash, change.cause].map(str::to_owned));
            push_pairs(&mut args, change.audit);
            (self.change_keys(key_id, tenant, day, change), args)
        };
        let (word, mut reply) = self.admin_call(&REVOKE_API_KEY, build).await?;
        match outcome(word, &mut reply)?.as_str() {
            "revoked" => Ok(Record::from_pairs(reply.rest()?)),
            "not_found" => Err(AdminError::Refused(AdminRefusal::KeyNotFound)),
            other => Err(refused(other, reply)),
        }
    }

    /// Changes a key of this tenant that is still good, and returns its record. A field without a value is taken out.
    ///
    /// # Errors
    /// Refusals: tenant closed, no such key, one that has been revoked or has expired.
    pub async fn update_api_key(
        &self,
        key_id: &KeyId,
        tenant: &TenantId,
        fields: &[FieldChange],
        change: &Change<'_>,
    ) -> Result<Record, AdminError> {
        let build = |day: Day| {
            let mut args = vec![tenant.to_string()];
            push_day(&mut args, day);
            args.push(key_id.to_string());
            args.extend([change.payload_hash, change.cause].map(str::to_owned));
            args.push((fields.len() * 2).to_string());
            for change in fields {
                let value = change.value.as_ref().map(|value| format!("={value}"));
                args.extend([change.field.to_owned(), value.unwrap_or_default()]);
            }
            push_pairs(&mut args, change.audit);
            (self.change_keys(key_id, tenant, day, change), args)
        };
        let (word, mut reply) = self.admin_call(&UPDATE_API_KEY, build).await?;
        match outcome(word, &mut reply)?.as_str() {
            "updated" => Ok(Record::from_pairs(reply.rest()?)),
            "not_found" => Err(AdminError::Refused(AdminRefusal::KeyNotFound)),
            "key_ended" => {
                let status = reply.next_str()?;
                let status = ApiKeyStatus::parse(&status).ok_or_else(|| reply.unknown(&status))?;
                Err(AdminError::Refused(AdminRefusal::KeyEnded(status)))
            }
            other => Err(refused(other, reply)),
        }
    }

    /// The keys of a script that changes one API key.
    fn change_keys(
        &self,
        key_id: &KeyId,
        tenant: &TenantId,
        day: Day,
        change: &Change<'_>,
    ) -> Vec<String> {
        let (keys, partition, tenant) = (self.keys(), key_id.partition(), tenant.as_str());
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
        let idempotency = change.idempotency;
        key_names.extend(idempotency.map(|key| keys.idempotency(partition, tenant, key)));
        key_names
    }
}
