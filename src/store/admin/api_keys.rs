//! `register_api_key.lua`, `create_api_key.lua`, `update_api_key.lua` and `revoke_api_key.lua`.

use tracing::warn;

use crate::domain::api_key::secret::KeyId;
use crate::domain::ids::TenantId;
use crate::domain::moment::Moment;
use crate::driver::script::Counted;
use crate::store::admin::Change;
use crate::store::records::command;
use crate::store::signature::{FlatRecord, signature};
use crate::store::target::Target;
use crate::store::{Lane, Pair, ScriptError, Store, StoreError, outcome};

signature! {
    /// Enters an API key into the directory before it is recorded, and chooses its creation time, so that the directory is in
    /// the order of these times, whatever the clocks of other nodes say.
    REGISTER_API_KEY: RegisterApiKey -> RegisterApiKeyReply = "admin/api_keys/register_api_key";
    keys of directory { write api_key_directory(); }
    args { key_id: &'a KeyId }
    replies { registered: Registered { now_ms: i64 } }
    writes "On registered: the directory. An id that is there keeps its place."
}

signature! {
    /// Records an API key of a tenant. The secret is not among the arguments, only its digest; and, where there is an
    /// idempotency key, the sealed text of the key, for a replay.
    CREATE_API_KEY: CreateApiKey -> CreateApiKeyReply = "admin/api_keys/create_api_key";
    change of tenant {
        write tenant_key: tenant(tenant), api_key(key_id), api_keys(tenant), expiring();
    }
    args {
        day,
        tenant: &'a TenantId,
        key_id: &'a KeyId,
        /// Of the new API key.
        key_hash: &'a str,
        requested_expires_at_ms: Option<i64>,
        name: &'a str,
        /// A blank on either side of each.
        permissions: &'a str,
        /// '' where there is no idempotency key.
        sealed: &'a str,
        /// When the directory learned of the key.
        registered_ms: i64,
        /// API keys that the tenant may have, revoked and expired ones included.
        limit: u32,
        fields: Counted<&'a [Pair]>,
    }
    replies {
        clock, idempotency_mismatch,
        replayed: Replayed { created: String, created_at: Moment, expires_at: Moment, sealed: String },
        tenant_unreadable, tenant_closed, owner_not_found, tenant_suspended, expires_in_the_past, too_many,
        taken: Taken,
        created: Created { created_at: Moment, expires_at: Moment, sealed: String },
    }
    writes "On created: the tenant's list, the expiry, the API key, the event, the audit entry. Otherwise nothing."
}

signature! {
    /// Revokes an API key for good; its next use is refused.
    ///
    /// The audit entry gets the name of the API key.
    REVOKE_API_KEY: RevokeApiKey -> RevokeApiKeyReply = "admin/api_keys/revoke_api_key", flags "allow-oom";
    change of tenant {
        write api_key(key_id), tenant_key: tenant(tenant);
    }
    args {
        day,
        /// The owner of the API key.
        tenant: &'a TenantId,
        key_id: &'a KeyId,
        reason: Option<&'a str>,
    }
    replies {
        clock, idempotency_mismatch, replayed, tenant_unreadable, tenant_closed, api_key_not_found, key_revoked,
        revoked: Revoked { record: FlatRecord },
    }
    writes "On revoked: the API key, the event, the audit entry. Otherwise nothing."
}

signature! {
    /// Changes an API key that is still good; its next use is judged by what it is then.
    UPDATE_API_KEY: UpdateApiKey -> UpdateApiKeyReply = "admin/api_keys/update_api_key";
    change of tenant {
        write api_key(key_id), tenant_key: tenant(tenant);
    }
    args {
        day,
        /// The owner of the API key.
        tenant: &'a TenantId,
        key_id: &'a KeyId,
        /// A field of the record, then = and its value, or '' to remove it.
        fields: Counted<Vec<(&'a str, Option<String>)>>,
    }
    replies {
        clock, idempotency_mismatch, replayed, tenant_unreadable, tenant_closed, api_key_not_found,
        key_ended, updated: Updated { record: FlatRecord },
    }
    writes "On updated: the API key, the audit entry; the event where the key may do more, less or elsewhere. Otherwise nothing."
}

impl Store {
    /// Enters a key into the directory and returns its creation time. The directory learns of a key first, so that none is
    /// ever missing there; its readers pass over an entry without a record.
    pub(crate) async fn register_api_key(&self, key_id: &KeyId) -> Result<i64, StoreError> {
        let RegisterApiKeyReply::Registered { now_ms } =
            outcome(self.run(Lane::Request, &RegisterApiKey { key_id }).await)?;
        Ok(now_ms)
    }

    /// Records a key that is in the directory.
    ///
    /// # Errors
    /// Refusals: tenant closed, unknown or suspended; an expiry in the past; as many as the tenant may have.
    pub(crate) async fn create_api_key(
        &self,
        target: &impl Target,
        call: &CreateApiKey<'_>,
    ) -> Result<CreateApiKeyReply, StoreError> {
        let outcome = match self.run(Lane::Request, call).await {
            Err(ScriptError::Store(error)) => return Err(error),
            outcome => outcome,
        };
        // Anything else recorded no key of this id, unless there was one before.
        if !matches!(
            outcome,
            Ok(CreateApiKeyReply::Created { .. } | CreateApiKeyReply::Taken)
        ) {
            self.unregister_api_key(call.key_id).await;
        }
        target.named(outcome)
    }

    /// Removes the entry of a failed create. An entry that stays does no harm.
    async fn unregister_api_key(&self, key_id: &KeyId) {
        let directory = self.keys().api_key_directory();
        let leave = command("ZREM", directory, key_id.as_str());
        if let Err(error) = self.write(leave).await {
            warn!(key.id = %key_id, error = %error, "`{key_id}` stays in the directory, although no such key exists: {error}");
        }
    }
}
