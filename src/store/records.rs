//! Indexes and records, read by plain commands off the request path.

use redis::{Cmd, FromRedisValue, Value};

use super::{Store, StoreError};
use crate::domain::record::Record;

impl Store {
    /// Up to `rows` members beyond `after` of a sorted set whose members all have one score.
    ///
    /// # Errors
    /// [`StoreError`].
    pub(super) async fn members(
        &self,
        key: &str,
        after: Option<&str>,
        descending: bool,
        rows: usize,
    ) -> Result<Vec<String>, StoreError> {
        let from = after.map(|member| format!("({member}"));
        let (command, first, last) = match descending {
            false => ("ZRANGEBYLEX", from.as_deref().unwrap_or("-"), "+"),
            true => ("ZREVRANGEBYLEX", from.as_deref().unwrap_or("+"), "-"),
        };
        let mut range = redis::cmd(command);
        range.arg(key).arg(first).arg(last);
        range.arg("LIMIT").arg(0).arg(rows);
        read_reply(self.query(key, &range).await?)
    }

    /// The named fields of hashes, in the order of their keys: an empty record where there is none, and an error where the key
    /// holds something else.
    ///
    /// # Errors
    /// [`StoreError`].
    pub(super) async fn records(
        &self,
        keys: impl Iterator<Item = String>,
        fields: &[&str],
    ) -> Result<Vec<Result<Record, StoreError>>, StoreError> {
        let command = |key: String| {
            let mut read = redis::cmd("HMGET");
            read.arg(&key).arg(fields);
            (key, read)
        };
        let commands: Vec<(String, Cmd)> = keys.map(command).collect();
        let replies = self.query_each(&commands).await?.into_iter();
        let record = |reply| Ok(Record::from_fields(fields, read_reply(reply)?));
        Ok(replies.map(|reply| reply.and_then(record)).collect())
    }
}

/// What a plain command replied.
///
/// # Errors
/// [`StoreError::Refused`] for a reply of another kind.
pub(super) fn read_reply<T: FromRedisValue>(reply: Value) -> Result<T, StoreError> {
    redis::from_redis_value(reply).map_err(|error| StoreError::Refused {
        code: "REPLY".to_owned(),
        detail: error.to_string().chars().take(80).collect(),
    })
}

/// The same, or nothing where there is none or another kind.
pub(super) fn read_or_default<T: FromRedisValue + Default>(reply: Option<Value>) -> T {
    reply
        .and_then(|reply| read_reply(reply).ok())
        .unwrap_or_default()
}
