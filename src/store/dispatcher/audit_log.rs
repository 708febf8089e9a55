//! Reading audit logs and their seals, to seal and to verify them.

use redis::{Cmd, Value};

use crate::domain::audit::StoredEntry;
use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::store::{Day, Store, StoreError};

/// A part of the log of one day.
#[derive(Debug, Clone, Copy)]
pub struct Stretch {
    /// The day.
    pub day: Day,
    /// Behind this entry; in front of it when descending.
    pub after: Option<EntryId>,
    /// Newest first.
    pub descending: bool,
    /// Entries at most.
    pub rows: usize,
}

impl Store {
    /// Reads parts of the logs of one name in one partition, all at once; each comes in its own order.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Refused`] where a key holds something else.
    pub async fn audit_entries(
        &self,
        partition: Partition,
        tenant: &str,
        stretches: &[Stretch],
    ) -> Result<Vec<Vec<StoredEntry>>, StoreError> {
        let command = |stretch: &Stretch| {
            let key = self.keys().audit(partition, tenant, stretch.day);
            let after = stretch.after.map(|entry| format!("({entry}"));
            let mut read = redis::cmd(match stretch.descending {
                true => "XREVRANGE",
                false => "XRANGE",
            });
            let (from, to) = match stretch.descending {
                true => (after.as_deref().unwrap_or("+"), "-"),
                false => (after.as_deref().unwrap_or("-"), "+"),
            };
            read.arg(&key).arg(from).arg(to);
            read.arg("COUNT").arg(stretch.rows);
            (key, read)
        };
        let commands: Vec<(String, Cmd)> = stretches.iter().map(command).collect();
        let replies = self.query_all(&commands).await?;
        Ok(replies.into_iter().map(entries).collect())
    }

    /// The seals of a day by number; `None` for one that is not there. Behind them the number and hash of the last that was
    /// sealed of the day, as stored.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn audit_seals(
        &self,
        partition: Partition,
        tenant: &str,
        day: Day,
        numbers: &[u64],
    ) -> Result<Vec<Option<String>>, StoreError> {
        let key = self.keys().seals(partition, tenant, day);
        let mut read = redis::cmd("HMGET");
        read.arg(&key).arg(numbers).arg("last");
        let mut seals: Vec<Option<String>> =
            redis::from_redis_value(self.query(&key, &read).await?).unwrap_or_default();
        seals.resize(numbers.len() + 1, None);
        Ok(seals)
    }
}

/// The entries of a reply. Bytes that are no text are replaced: an entry of another writer must not hide the others.
fn entries(reply: Value) -> Vec<StoredEntry> {
    let read: Vec<(String, Vec<Vec<u8>>)> = redis::from_redis_value(reply).unwrap_or_default();
    let text = |bytes: Vec<u8>| match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    };
    let entry = |(id, fields): (String, Vec<Vec<u8>>)| StoredEntry {
        id,
        fields: fields.into_iter().map(text).collect(),
    };
    read.into_iter().map(entry).collect()
}
