//! The indexes of API keys by creation, and their records without secrets.

use redis::Value;

use crate::domain::api_key::ApiKey;
use crate::domain::api_key::secret::KeyId;
use crate::domain::ids::TenantId;
use crate::domain::record::Record;
use crate::store::records::{command, read_reply};
use crate::store::{Store, StoreError};

/// A key's place in an index by creation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ApiKeyEntry {
    /// When it was created, in milliseconds.
    pub created_at_ms: i64,
    /// Its id; in the directory perhaps one that has no record.
    pub key_id: String,
}

/// A stretch of such an index.
#[derive(Debug)]
pub struct ApiKeyEntries {
    /// The clock of the index's node.
    pub now_ms: i64,
    /// In order; equal times by id, in the same direction.
    pub entries: Vec<ApiKeyEntry>,
}

impl Store {
    /// Up to `rows` entries of all API keys, or of one tenant's, from a time on; that time is included.
    pub async fn api_key_entries(
        &self,
        tenant: Option<&TenantId>,
        from_ms: Option<i64>,
        descending: bool,
        rows: usize,
    ) -> Result<ApiKeyEntries, StoreError> {
        let key = match tenant {
            Some(tenant) => self.keys().api_keys(tenant.partition(), tenant.as_str()),
            None => self.keys().api_key_directory(),
        };
        let (name, first, last) = match descending {
            false => ("ZRANGEBYSCORE", "-inf", "+inf"),
            true => ("ZREVRANGEBYSCORE", "+inf", "-inf"),
        };
        let first = from_ms.map_or_else(|| first.to_owned(), |from_ms| from_ms.to_string());
        let time = (key.clone(), redis::cmd("TIME"));
        let walk = (first, last, "WITHSCORES", "LIMIT", 0, rows);
        let commands = [time, command(name, key, walk)];
        let replies = self.send_all(&commands).await?;
        let [time, found] = replies.try_into().unwrap_or([Value::Nil, Value::Nil]);
        let time: Vec<i64> = read_reply(time)?;
        let found: Vec<(String, f64)> = read_reply(found)?;
        let entry = |(key_id, score): (String, f64)| ApiKeyEntry {
            created_at_ms: score as i64,
            key_id,
        };
        Ok(ApiKeyEntries {
            now_ms: time.first().unwrap_or(&0) * 1000 + time.get(1).unwrap_or(&0) / 1000,
            entries: found.into_iter().map(entry).collect(),
        })
    }

    /// The records of these keys without their digests, in their order; an empty one where there is none, and an error
    /// where there is something else.
    pub async fn api_key_records(
        &self,
        keys: &[KeyId],
    ) -> Result<Vec<Result<Record, StoreError>>, StoreError> {
        let key = |id: &KeyId| self.keys().api_key(id.partition(), id.as_str());
        self.records(keys.iter().map(key), &ApiKey::field_names())
            .await
    }
}
