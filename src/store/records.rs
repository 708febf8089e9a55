//! Indexes and records, read by plain commands off the request path.

use std::collections::HashMap;

use redis::{Cmd, FromRedisValue, ParsingError, ToRedisArgs, Value};

use super::{Lane, OnFailure, Store, StoreError};
use crate::domain::record::Record;

/// A plain command about one key, and the key, which says where it goes.
pub(super) type Command = (String, Cmd);

/// For a command that takes its key alone.
pub(super) const NO_ARGS: Option<&str> = None;

/// A plain command about a key.
pub(super) fn command(name: &str, key: String, args: impl ToRedisArgs) -> Command {
    let mut command = redis::cmd(name);
    command.arg(&key).arg(args);
    (key, command)
}

impl Store {
    /// The reply of a command off the request path; nothing in place of a reply of another kind.
    pub(super) async fn read<T: FromRedisValue + Default>(
        &self,
        command: Command,
    ) -> Result<T, StoreError> {
        let reply = self.send(Lane::Background, &command).await?;
        Ok(read_or_default(reply))
    }

    /// Sends a command off the request path whose reply says nothing.
    pub(super) async fn write(&self, command: Command) -> Result<(), StoreError> {
        self.send(Lane::Background, &command).await.map(drop)
    }

    /// The replies of commands, as [`Store::read`] has each; all must succeed.
    pub(super) async fn read_all<T: FromRedisValue + Default>(
        &self,
        commands: impl IntoIterator<Item = Command>,
    ) -> Result<Vec<T>, StoreError> {
        let replies = self.read_each(OnFailure::Fail, commands).await?;
        replies.into_iter().collect()
    }

    /// The same where some may fail, as in [`Store::send_each`].
    pub(super) async fn read_each<T: FromRedisValue + Default>(
        &self,
        on_failure: OnFailure,
        commands: impl IntoIterator<Item = Command>,
    ) -> Result<Vec<Result<T, StoreError>>, StoreError> {
        let commands: Vec<_> = commands.into_iter().collect();
        let replies = self.send_each(&commands, on_failure).await?.into_iter();
        Ok(replies.map(|reply| reply.map(read_or_default)).collect())
    }

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

/// Names and values.
impl FromRedisValue for Record {
    fn from_redis_value(reply: Value) -> Result<Self, ParsingError> {
        let fields: HashMap<String, String> = redis::from_redis_value(reply)?;
        Ok(fields.into_iter().collect())
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

/// The text of bytes. What is not UTF-8 was damaged; the fields beside it may still say what it was.
pub(super) fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The same, or nothing for another kind.
pub(super) fn read_or_default<T: FromRedisValue + Default>(reply: Value) -> T {
    redis::from_redis_value(reply).unwrap_or_default()
}
