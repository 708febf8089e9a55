//! Indexes and records, read by plain commands off the request path.

use redis::{Cmd, FromRedisValue, ToRedisArgs, Value};

use super::{Lane, OnFailure, Store, StoreError};
use crate::domain::record::Record;

/// For a command that takes its key alone.
pub(super) const NO_ARGS: Option<&str> = None;

/// A plain command about one key, and the key, which says where it goes.
pub(super) fn command(name: &str, key: String, args: impl ToRedisArgs) -> (String, Cmd) {
    let mut command = redis::cmd(name);
    command.arg(&key).arg(args);
    (key, command)
}

impl Store {
    /// Up to `rows` members beyond `after` of a sorted set whose members all have one score.
    pub(super) async fn members(
        &self,
        key: String,
        after: Option<&str>,
        descending: bool,
        rows: usize,
    ) -> Result<Vec<String>, StoreError> {
        let from = after.map(|member| format!("({member}"));
        let (name, first, last) = match descending {
            false => ("ZRANGEBYLEX", from.as_deref().unwrap_or("-"), "+"),
            true => ("ZREVRANGEBYLEX", from.as_deref().unwrap_or("+"), "-"),
        };
        let range = command(name, key, (first, last, "LIMIT", 0, rows));
        read_reply(self.send(Lane::Background, &range).await?)
    }

    /// The named fields of hashes, in the order of their keys: an empty record where there is none, and an error where the key
    /// holds something else.
    pub(crate) async fn records(
        &self,
        keys: impl IntoIterator<Item = String>,
        fields: &[&str],
    ) -> Result<Vec<Result<Record, StoreError>>, StoreError> {
        let commands: Vec<_> = keys
            .into_iter()
            .map(|key| command("HMGET", key, fields))
            .collect();
        let replies = self
            .send_each(&commands, OnFailure::Fail)
            .await?
            .into_iter();
        let record = |reply| Ok(Record::from_fields(fields, read_reply(reply)?));
        Ok(replies.map(|reply| reply.and_then(record)).collect())
    }
}

/// The reply of a plain command.
///
/// # Errors
/// [`StoreError::ErrorReply`] for a reply of another kind.
pub(super) fn read_reply<T: FromRedisValue>(reply: Value) -> Result<T, StoreError> {
    redis::from_redis_value(reply).map_err(|error| StoreError::ErrorReply {
        code: "REPLY".to_owned(),
        detail: error.to_string().chars().take(80).collect(),
    })
}

/// The same, or nothing for another kind.
pub(super) fn read_or_default<T: FromRedisValue + Default>(reply: Value) -> T {
    redis::from_redis_value(reply).unwrap_or_default()
}
