//! `expire_api_key.lua`: emits the expiry of API keys.

use super::emit::{Emission, EmittedReply};
use super::poll::unreadable;
use crate::domain::api_key::secret::KeyId;
use crate::domain::ids::TenantId;
use crate::store::signature::signature;
use crate::store::{Lease, Store, StoreError};

signature! {
    /// Emits, once, that the time of an API key is over. Every reader takes its status from the clock, so the record stays as it
    /// is. A key that was revoked before emits nothing.
    EXPIRE_API_KEY: ExpireApiKey -> EmittedReply declared elsewhere = "dispatcher/expire_api_key", flags "allow-oom";
    keys of partition of fencing_token {
        read api_key(key_id), lease();
        write expiring(), event_log: events(tenant, day), outbox(), days(), tenant_key: tenant(tenant);
    }
    args {
        day,
        tenant: &'a TenantId,
        key_id: &'a KeyId,
        /// Of expiring.
        member: &'a str,
        context: &'a str,
        fencing_token: Lease,
    }
    replies { clock, fenced, early, flushed: Flushed { events: i64 } }
    writes "On flushed: the entry of expiring goes, in the same step as the event comes. Otherwise nothing."
}

impl Store {
    /// Emits the expiry of one, if it is still pending. `member` is `<tenant>:<key_id>`.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Refused`] for a member that names nothing.
    pub async fn expire_api_key(
        &self,
        member: &str,
        lease: Lease,
        cause: &str,
    ) -> Result<Emission, StoreError> {
        let named = member
            .split_once(':')
            .and_then(|(tenant, key_id)| Some((TenantId::parse(tenant)?, KeyId::parse(key_id)?)));
        let Some((tenant, key_id)) = named else {
            return Err(unreadable(member));
        };
        let call = ExpireApiKey {
            tenant: &tenant,
            key_id: &key_id,
            member,
            context: cause,
            fencing_token: lease,
        };
        self.emit(&call).await
    }
}
