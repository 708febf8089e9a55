//! The streams of evidence that is to be signed, one per partition, and those of entries that nobody can sign.

use redis::{Cmd, Value};

use super::outbox::entries;
use crate::domain::ids::{Partition, ReservationId};
use crate::domain::log_entry::EntryId;
use crate::domain::record::Record;
use crate::store::records::{NO_ARGS, command, read_or_default};
use crate::store::{Store, StoreError};

/// Entries that are kept in quarantine in each partition; the oldest go first.
const QUARANTINED_MAX: usize = 10_000;

/// An entry and where it is.
pub type Queued = (Partition, EntryId);

impl Store {
    /// Up to `rows` entries of each stream beyond a place; `None` where the node is out of reach.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub async fn read_unsigned(
        &self,
        places: &[Queued],
        rows: usize,
    ) -> Result<Vec<Option<Vec<(EntryId, Record)>>>, StoreError> {
        let read = |(partition, after): &Queued| {
            let range = (format!("({after}"), "+", "COUNT", rows);
            command("XRANGE", self.keys().unsigned(*partition), range)
        };
        self.read_streams(places.iter().map(read).collect()).await
    }

    /// These entries, none where one is gone; `None` where the node is out of reach.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub async fn read_unsigned_again(
        &self,
        entries: &[Queued],
    ) -> Result<Vec<Option<Vec<(EntryId, Record)>>>, StoreError> {
        let read = |(partition, entry): &Queued| {
            let range = (entry.to_string(), entry.to_string());
            command("XRANGE", self.keys().unsigned(*partition), range)
        };
        self.read_streams(entries.iter().map(read).collect()).await
    }

    async fn read_streams(
        &self,
        commands: Vec<(String, Cmd)>,
    ) -> Result<Vec<Option<Vec<(EntryId, Record)>>>, StoreError> {
        let replies = self.query_reachable(&commands).await?.into_iter();
        Ok(replies.map(|reply| reply.map(entries)).collect())
    }

    /// Fields of reservations; an empty record where there is none, `None` where the node is out of reach.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub async fn read_reservations(
        &self,
        ids: &[(Partition, ReservationId)],
        fields: &[&str],
    ) -> Result<Vec<Option<Record>>, StoreError> {
        let read = |(partition, id): &(Partition, ReservationId)| {
            let key = self.keys().reservation(*partition, id.as_str());
            command("HMGET", key, fields)
        };
        let commands: Vec<_> = ids.iter().map(read).collect();
        let replies = self.query_reachable(&commands).await?.into_iter();
        let record = |reply| Record::from_fields(fields, read_or_default(reply));
        Ok(replies.map(|reply| reply.map(record)).collect())
    }

    /// Removes entries that are done. Returns of each whether its node did it.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub async fn drop_unsigned(&self, entries: &[Queued]) -> Result<Vec<bool>, StoreError> {
        let delete = |(partition, entry): &Queued| {
            command("XDEL", self.keys().unsigned(*partition), entry.to_string())
        };
        let commands: Vec<_> = entries.iter().map(delete).collect();
        let replies = self.query_reachable(&commands).await?;
        Ok(replies.iter().map(Option::is_some).collect())
    }

    /// Puts an entry that nobody can sign into quarantine, with the reason. Where the second step fails, it is there twice.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn quarantine_unsigned(
        &self,
        (partition, entry): Queued,
        facts: &Record,
        why: &str,
    ) -> Result<(), StoreError> {
        let mut words = vec![
            "MAXLEN".to_owned(),
            "~".to_owned(),
            QUARANTINED_MAX.to_string(),
            "*".to_owned(),
        ];
        let (place, mut pairs) = (entry.to_string(), facts.pairs().collect::<Vec<_>>());
        pairs.extend([("entry", &*place), ("why", why)]);
        words.extend(
            pairs
                .into_iter()
                .flat_map(|(name, value)| [name.to_owned(), value.to_owned()]),
        );
        self.write(command("XADD", self.keys().unsignable(partition), words))
            .await?;
        self.drop_unsigned(&[(partition, entry)]).await.map(drop)
    }

    /// How many entries are in quarantine in these partitions; those out of reach count none.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub async fn quarantined(&self, partitions: &[Partition]) -> Result<i64, StoreError> {
        let count =
            |partition: &Partition| command("XLEN", self.keys().unsignable(*partition), NO_ARGS);
        let commands: Vec<_> = partitions.iter().map(count).collect();
        let replies = self.query_reachable(&commands).await?.into_iter().flatten();
        Ok(replies
            .map(|reply: Value| read_or_default::<i64>(reply))
            .sum())
    }
}
