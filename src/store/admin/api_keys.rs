//! `register_api_key.lua`, `create_api_key.lua`, `update_api_key.lua` and `revoke_api_key.lua`.

use tracing::warn;

use crate::domain::api_key::permission::ApiKeyStatus;
use crate::domain::api_key::secret::KeyId;
use crate::domain::ids::{Partition, TenantId};
use crate::domain::moment::Moment;
use crate::domain::record::{FieldChange, Record};
use crate::domain::refusal::admin::AdminRefusal;
use crate::driver::script::Counted;
use crate::store::admin::{AdminError, Change, Pairs};
use crate::store::signature::{FlatRecord, Refused, signature};
use crate::store::{Pair, Store};

signature! {
    /// Enters an API key into the directory before it is recorded, and chooses its creation time, so that the directory is in
    /// the order of these times, whatever the clocks of other nodes say.
    REGISTER_API_KEY: RegisterApiKey -> RegisterApiKeyReply = "admin/api_keys/register_api_key";
    keys of directory { write api_key_directory(); }
    args { key_id: &'a str }
    replies { registered: Registered { now_ms: i64 } }
    writes "On registered: the directory. An id that is there keeps its place."
}

signature! {
    /// Records an API key of a tenant. The secret is not among the arguments, only its digest; and, where there is an
    /// idempotency key, the sealed text of the key, so that a replay can answer it.
    CREATE_API_KEY: CreateApiKey -> CreateApiKeyReply = "admin/api_keys/create_api_key";
    names { partition: Partition, digest: Option<&'a str> }
    keys of partition {
        write tenant_key: tenant(tenant), api_key(key_id), api_keys(tenant), expiring(), event_log: events(tenant, day),
            outbox(), days(), audit_log: audit(tenant, day), chain(tenant), unsealed(),
            idempotency(tenant, digest) when digest;
    }
    args {
        day,
        tenant: &'a str,
        key_id: &'a str,
        key_hash: &'a str,
        requested_expires_at_ms: Option<i64>,
        name: &'a str,
        /// A blank on either side of each.
        permissions: &'a str,
        /// '' where there is no idempotency key.
        sealed: &'a str,
        /// When the directory learned of the key.
        registered_ms: i64,
        payload_hash: &'a str,
        /// The request cause, lines of name and value.
        context: &'a str,
        /// Names and values of the record.
        fields: Counted<&'a [Pair]>,
        /// Names and values of the audit entry.
        audit: &'a [Pair],
    }
    replies {
        clock, idempotency_mismatch,
        replayed: Replayed { created: String, created_at: Moment, expires_at: Moment, sealed: String },
        tenant_unreadable, tenant_closed, tenant_not_found, tenant_suspended, expires_in_the_past: ExpiresInThePast,
        taken: Taken,
        created: Created { created_at: Moment, expires_at: Moment, sealed: String },
    }
    writes "On created: the tenant's list, the expiry, the API key, the event, the audit entry. Otherwise nothing."
}

signature! {
    /// Revokes an API key for good; its next use is refused.
    REVOKE_API_KEY: RevokeApiKey -> RevokeApiKeyReply = "admin/api_keys/revoke_api_key", flags "allow-oom";
    names { partition: Partition, digest: Option<&'a str> }
    keys of partition {
        write api_key(key_id), tenant_key: tenant(tenant), event_log: events(tenant, day), outbox(), days(),
            audit_log: audit(tenant, day), chain(tenant), unsealed(), idempotency(tenant, digest) when digest;
    }
    args {
        day,
        /// The owner of the API key.
        tenant: &'a str,
        key_id: &'a str,
        reason: Option<&'a str>,
        payload_hash: &'a str,
        /// The request cause, lines of name and value.
        context: &'a str,
        /// Names and values of the audit entry, except the name of the API key.
        audit: &'a [Pair],
    }
    replies {
        clock, idempotency_mismatch, replayed, tenant_unreadable, tenant_closed, not_found, key_revoked: KeyRevoked,
        revoked: Revoked { record: FlatRecord },
    }
    writes "On revoked: the API key, the event, the audit entry. Otherwise nothing."
}

signature! {
    /// Changes an API key that is still good; its next use is judged by what it is then.
    UPDATE_API_KEY: UpdateApiKey -> UpdateApiKeyReply = "admin/api_keys/update_api_key";
    names { partition: Partition, digest: Option<&'a str> }
    keys of partition {
        write api_key(key_id), tenant_key: tenant(tenant), event_log: events(tenant, day), outbox(), days(),
            audit_log: audit(tenant, day), chain(tenant), unsealed(), idempotency(tenant, digest) when digest;
    }
    args {
        day,
        /// The owner of the API key.
        tenant: &'a str,
        key_id: &'a str,
        payload_hash: &'a str,
        /// The request cause, lines of name and value.
        context: &'a str,
        /// A field of the record, then = and its value, or '' to remove it.
        fields: Counted<Vec<(&'a str, Option<String>)>>,
        /// Names and values of the audit entry.
        audit: &'a [Pair],
    }
    replies {
        clock, idempotency_mismatch, replayed, tenant_unreadable, tenant_closed, not_found,
        key_ended: KeyEnded { status: ApiKeyStatus }, updated: Updated { record: FlatRecord },
    }
    writes "On updated: the API key, the audit entry; the event where the key may do more, less or elsewhere. Otherwise nothing."
}

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
        let RegisterApiKeyReply::Registered { now_ms } = self
            .outcome(&RegisterApiKey {
                key_id: key.key_id.as_str(),
            })
            .await?;
        let call = CreateApiKey {
            partition: key.tenant.partition(),
            digest: change.idempotency,
            tenant: key.tenant.as_str(),
            key_id: key.key_id.as_str(),
            key_hash: key.key_hash,
            requested_expires_at_ms: key.expires_at_ms,
            name: key.name,
            permissions: key.permissions,
            sealed: key.sealed,
            registered_ms: now_ms,
            payload_hash: change.payload_hash,
            context: change.cause,
            fields: Counted(key.fields),
            audit: change.audit,
        };
        let outcome = self.run(&call).await?;
        // Anything else recorded no key of this id, unless there was one before.
        if !matches!(
            outcome,
            Ok(CreateApiKeyReply::Created { .. } | CreateApiKeyReply::Taken)
        ) {
            self.unregister_api_key(key.key_id).await;
        }
        match outcome {
            Ok(
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
                },
            ) => Ok(KeyCreation::Created {
                created_at,
                expires_at,
                sealed,
            }),
            Ok(CreateApiKeyReply::Taken) => Ok(KeyCreation::Taken),
            Ok(CreateApiKeyReply::ExpiresInThePast) => Err(AdminRefusal::ExpiresInThePast.into()),
            Err(Refused::TenantSuspended) => Err(AdminRefusal::TenantNotActive.into()),
            Err(refused) => Err(refused.into()),
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
        let call = RevokeApiKey {
            partition: key_id.partition(),
            digest: change.idempotency,
            tenant: tenant.as_str(),
            key_id: key_id.as_str(),
            reason,
            payload_hash: change.payload_hash,
            context: change.cause,
            audit: change.audit,
        };
        match self.run(&call).await? {
            Ok(RevokeApiKeyReply::Revoked { record }) => Ok(record.0),
            Ok(RevokeApiKeyReply::KeyRevoked) => Err(AdminRefusal::KeyRevoked.into()),
            Err(Refused::NotFound) => Err(AdminRefusal::KeyNotFound.into()),
            Err(refused) => Err(refused.into()),
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
        let field = |change: &FieldChange| {
            let value = change.value.as_ref().map(|value| format!("={value}"));
            (change.field, value)
        };
        let call = UpdateApiKey {
            partition: key_id.partition(),
            digest: change.idempotency,
            tenant: tenant.as_str(),
            key_id: key_id.as_str(),
            payload_hash: change.payload_hash,
            context: change.cause,
            fields: Counted(fields.iter().map(field).collect()),
            audit: change.audit,
        };
        match self.run(&call).await? {
            Ok(UpdateApiKeyReply::Updated { record }) => Ok(record.0),
            Ok(UpdateApiKeyReply::KeyEnded { status }) => {
                Err(AdminRefusal::KeyEnded(status).into())
            }
            Err(Refused::NotFound) => Err(AdminRefusal::KeyNotFound.into()),
            Err(refused) => Err(refused.into()),
        }
    }
}
