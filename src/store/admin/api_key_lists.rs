//! The indexes of API keys by creation, and their records as they may be shown.

use redis::Value;

use crate::domain::api_key::secret::KeyId;
use crate::domain::ids::TenantId;
use crate::domain::record::Record;
use crate::store::{Store, StoreError};

/// The fields of a record that may be shown: all but the digest.
const SHOWN: [&str; 12] = [
    "tenant",
    "key_prefix",
    "name",
    "description",
    "permissions",
    "scope_filter",
    "status",
    "created_at_ms",
    "expires_at_ms",
    "revoked_at_ms",
    "revoked_reason",
    "metadata",
];

/// A key's place in an index by creation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyEntry {
    /// When it was created, in milliseconds.
    pub created_at_ms: i64,
    /// Its id; in the directory perhaps one that has no record.
    pub key_id: String,
}

/// A stretch of such an index.
#[derive(Debug)]
pub struct KeyEntries {
    /// The clock of the index's node.
    pub now_ms: i64,
    /// In order; equal times by id, in the same direction.
    pub entries: Vec<KeyEntry>,
}

impl Store {
    /// Up to `rows` entries of all API keys, or of one tenant's, from a time on; that time is included.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn api_key_entries(
        &self,
        tenant: Option<&TenantId>,
        from_ms: Option<i64>,
        descending: bool,
        rows: usize,
    ) -> Result<KeyEntries, StoreError> {
        let key = match tenant {
            Some(tenant) => self.keys().api_keys(tenant.partition(), tenant.as_str()),
            None => self.keys().api_key_directory(),
        };
        let (command, first, last) = match descending {
            false => ("ZRANGEBYSCORE", "-inf", "+inf"),
            true => ("ZREVRANGEBYSCORE", "+inf", "-inf"),
        };
        let first = from_ms.map_or_else(|| first.to_owned(), |from_ms| from_ms.to_string());
        let mut walk = redis::cmd(command);
        walk.arg(&key).arg(first).arg(last).arg("WITHSCORES");
        walk.arg("LIMIT").arg(0).arg(rows);
        let commands = [(key.clone(), redis::cmd("TIME")), (key, walk)];
        let replies = self.query_all(&commands).await?;
        let [time, found] = replies.try_into().unwrap_or([Value::Nil, Value::Nil]);
        let time: Vec<i64> = read(time)?;
        let found: Vec<(String, f64)> = read(found)?;
        let entry = |(key_id, score): (String, f64)| KeyEntry {
            created_at_ms: score as i64,
            key_id,
        };
        Ok(KeyEntries {
            now_ms: time.first().unwrap_or(&0) * 1000 + time.get(1).unwrap_or(&0) / 1000,
            entries: found.into_iter().map(entry).collect(),
        })
    }

    /// The records of these keys without their digests, in their order; an empty one where there is none, and an error
    /// where there is something else.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn api_key_records(
        &self,
        keys: &[KeyId],
    ) -> Result<Vec<Result<Record, StoreError>>, StoreError> {
        let command = |id: &KeyId| {
            let key = self.keys().api_key(id.partition(), id.as_str());
            let mut fields = redis::cmd("HMGET");
            fields.arg(&key).arg(&SHOWN[..]);
            (key, fields)
        };
        let commands: Vec<_> = keys.iter().map(command).collect();
        let replies = self.query_each(&commands).await?;
        let record = |reply| Ok(Record::from_fields(&SHOWN, read(reply)?));
        Ok(replies
            .into_iter()
            .map(|reply| reply.and_then(record))
            .collect())
    }
}

fn read<T: redis::FromRedisValue>(reply: Value) -> Result<T, StoreError> {
    redis::from_redis_value(reply).map_err(|error| StoreError::Refused {
        code: "REPLY".to_owned(),
        detail: error.to_string().chars().take(80).collect(),
    })
}
