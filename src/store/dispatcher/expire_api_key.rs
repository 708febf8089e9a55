//! `expire_api_key.lua`: emits the expiry of API keys.

use super::poll::Due;
use crate::domain::api_key::secret::KeyId;
use crate::domain::ids::{Partition, TenantId};
use crate::store::dispatcher::flush::Flushed;
use crate::store::signature::signature;
use crate::store::{Lane, Lease, Store, StoreError};

signature! {
    /// Emits, once, that the time of an API key is over. Every reader takes its status from the clock, so the record stays as it
    /// is. A key that was revoked before emits nothing.
    EXPIRE_API_KEY: ExpireApiKey -> ExpireApiKeyReply = "dispatcher/expire_api_key", flags "allow-oom";
    names { partition: Partition }
    keys of partition {
        read api_key(key_id), lease();
        write expiring(), event_log: events(tenant, day), outbox(), days(), tenant_key: tenant(tenant);
    }
    args {
        day,
        tenant: &'a str,
        key_id: &'a str,
        /// Of expiring.
        member: &'a str,
        /// The request cause, lines of name and value.
        context: &'a str,
        fencing_token: i64,
    }
    replies { clock, fenced, early, flushed: Flushed { events: i64 } }
    writes "On flushed: the entry of expiring goes, in the same step as the event comes. Otherwise nothing."
}

impl Store {
    /// The API keys of each partition whose expiry is pending, earliest first, at most `rows`; `None` where the
    /// node is out of reach.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn poll_expiring(
        &self,
        partitions: &[Partition],
        rows: usize,
    ) -> Result<Vec<Option<Vec<Due>>>, StoreError> {
        let keys = partitions.iter().map(|p| self.keys().expiring(*p));
        self.poll(keys, rows).await
    }

    /// Emits the expiry of one, if it is still pending. `member` is `<tenant>:<key_id>`.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Refused`] for a member that names nothing.
    pub async fn expire_api_key(
        &self,
        member: &str,
        lease: Lease,
        cause: &str,
    ) -> Result<Flushed, StoreError> {
        let named = member
            .split_once(':')
            .and_then(|(tenant, key_id)| Some((TenantId::parse(tenant)?, KeyId::parse(key_id)?)));
        let Some((tenant, key_id)) = named else {
            return Err(StoreError::Refused {
                code: "MEMBER".to_owned(),
                detail: format!("`{member}` names no API key"),
            });
        };
        let call = ExpireApiKey {
            partition: lease.partition,
            tenant: tenant.as_str(),
            key_id: key_id.as_str(),
            member,
            context: cause,
            fencing_token: lease.token,
        };
        let flushed = self.run_on(Lane::Background, &call).await?;
        Flushed::read(flushed.map(|ExpireApiKeyReply::Flushed { events }| events))
    }
}
