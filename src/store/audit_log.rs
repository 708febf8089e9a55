//! Reading audit logs and their seals.

use redis::{Cmd, Value};

use super::script::LIST_EVENTS;
use super::{Day, Lane, Reply, Store, StoreError};
use crate::domain::audit::StoredEntry;
use crate::domain::ids::{Partition, TenantId};
use crate::domain::log_entry::EntryId;
use crate::script_args;

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

    /// A number of a tenant's entries in the order of its logs, between two bounds as `XRANGE` has them: whether no entry is
    /// left, then the number of the log among `days`, and the entry.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn list_audit(
        &self,
        tenant: &TenantId,
        days: &[Day],
        descending: bool,
        (low, high): (&str, &str),
        rows: usize,
    ) -> Result<(bool, Vec<(usize, StoredEntry)>), StoreError> {
        let (keys, partition) = (self.keys(), tenant.partition());
        let mut key_names = vec![
            keys.api_key(partition, ""),
            keys.tenant(partition, tenant.as_str()),
        ];
        let log = |day: &Day| keys.audit(partition, tenant.as_str(), *day);
        key_names.extend(days.iter().map(log));
        let direction = if descending { "desc" } else { "asc" };
        // The script walks any logs; an empty digest stands for the admin key.
        let args = script_args!["", tenant.as_str(), "", direction, low, high, rows as i64];
        let value = self
            .call_on(Lane::Background, &LIST_EVENTS, &key_names, args)
            .await?;
        let mut reply = Reply::new(&LIST_EVENTS, value)?;
        match reply.next_str()?.as_str() {
            "listed" => {}
            other => return Err(reply.unknown(other)),
        }
        let _scope_filter = reply.next_str()?;
        let complete = reply.next_i64()? == 1;
        let mut entries = Vec::with_capacity(reply.len() / 3);
        while !reply.is_empty() {
            let log = usize::try_from(reply.next_i64()? - 1).unwrap_or(0);
            let id = reply.next_str()?;
            let fields = reply.next_array()?.rest()?;
            entries.push((log, StoredEntry { id, fields }));
        }
        Ok((complete, entries))
    }

    /// Reads entries of any logs, each by its own place; `None` for one that is not there.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn audit_entries_at(
        &self,
        places: &[(Partition, String, Day, EntryId)],
    ) -> Result<Vec<Option<StoredEntry>>, StoreError> {
        let command = |(partition, tenant, day, entry): &(Partition, String, Day, EntryId)| {
            let key = self.keys().audit(*partition, tenant, *day);
            let (mut read, id) = (redis::cmd("XRANGE"), entry.to_string());
            read.arg(&key).arg(&id).arg(&id);
            (key, read)
        };
        let commands: Vec<(String, Cmd)> = places.iter().map(command).collect();
        let replies = self.query_each(&commands).await?;
        let first = |reply: Result<Value, StoreError>| match reply {
            Ok(reply) => Ok(entries(reply).into_iter().next()),
            // A log of another type hides its own rows, no others.
            Err(StoreError::Refused { .. }) => Ok(None),
            Err(error) => Err(error),
        };
        replies.into_iter().map(first).collect()
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

/// The entries of a reply. Bytes that are no text are replaced: an entry that somebody else wrote must not hide the others.
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
