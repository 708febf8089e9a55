//! `expire_api_key.lua`: tells of API keys whose time is over.

use super::poll::Due;
use crate::domain::api_key::secret::KeyId;
use crate::domain::ids::{Partition, TenantId};
use crate::store::dispatcher::rollups::Flushed;
use crate::store::scripts::EXPIRE_API_KEY;
use crate::store::{Arg, Lane, Lease, Store, StoreError};

impl Store {
    /// The API keys of each partition whose time is over first and has not been told, at most `rows`; `None` where the
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

    /// Tells of one, if it is still to be told. `member` is `<tenant>:<key_id>`.
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
        let (keys, partition, tenant) = (self.keys(), lease.partition, tenant.as_str());
        let (day, key_id) = (self.today(), key_id.as_str());
        let key_names = [
            keys.expiring(partition),
            keys.api_key(partition, key_id),
            keys.events(partition, tenant, day),
            keys.outbox(partition),
            keys.days(partition),
            keys.tenant(partition, tenant),
            keys.lease(partition),
        ];
        let day_text = day.to_string();
        let args = [
            Arg::from(tenant),
            Arg::from(&day_text),
            Arg::from(day.start_ms()),
            Arg::from(key_id),
            Arg::from(member),
            Arg::from(cause),
            Arg::from(lease.token),
        ];
        let reply = self
            .call_on(Lane::Background, &EXPIRE_API_KEY, &key_names, &args)
            .await?;
        Flushed::read(&EXPIRE_API_KEY, reply)
    }
}
