//! Reading audit logs and their seals, to seal and to verify them.

use redis::Value;

use crate::domain::audit::StoredEntry;
use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::store::records::{command, read_or_default};
use crate::store::{Day, Lane, Store, StoreError};

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
    /// [`StoreError`]; [`StoreError::ErrorReply`] where a key holds something else.
    pub async fn audit_entries(
        &self,
        partition: Partition,
        tenant: &str,
        stretches: &[Stretch],
    ) -> Result<Vec<Vec<StoredEntry>>, StoreError> {
        let range = |stretch: &Stretch| {
            let key = self.keys().audit(partition, tenant, stretch.day);
            let after = stretch.after.map(|entry| format!("({entry}"));
            let (name, from, to) = match stretch.descending {
                true => ("XREVRANGE", after.as_deref().unwrap_or("+"), "-"),
                false => ("XRANGE", after.as_deref().unwrap_or("-"), "+"),
            };
            command(name, key, (from, to, "COUNT", stretch.rows))
        };
        let commands: Vec<_> = stretches.iter().map(range).collect();
        let replies = self.send_all(&commands).await?;
        Ok(replies.into_iter().map(entries).collect())
    }

    /// The seals of a day by number; `None` for one that is not there. Behind them the number and hash of the last that was
    /// sealed of the day, as stored.
    pub async fn audit_seals(
        &self,
        partition: Partition,
        tenant: &str,
        day: Day,
        numbers: &[u64],
    ) -> Result<Vec<Option<String>>, StoreError> {
        let key = self.keys().seals(partition, tenant, day);
        let read = command("HMGET", key, (numbers, "last"));
        let mut seals: Vec<Option<String>> =
            read_or_default(self.send(Lane::Background, &read).await?);
        seals.resize(numbers.len() + 1, None);
        Ok(seals)
    }
}

/// The entries of a reply. Bytes that are no text are replaced: an entry of another writer must not hide the others.
fn entries(reply: Value) -> Vec<StoredEntry> {
    let read: Vec<(String, Vec<Vec<u8>>)> = read_or_default(reply);
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
