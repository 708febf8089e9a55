//! The outboxes of partitions: pointers into their event logs, for the views and the fan-out.

use redis::{FromRedisValue, ParsingError, Value};

use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::domain::record::Record;
use crate::store::records::{Command, command, lossy};
use crate::store::{Day, OnFailure, Store, StoreError};

/// More entries than any operation can append.
const COUNT_MAX: usize = 100_000;

/// An entry of an outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointer {
    /// Its place in the outbox.
    pub entry: EntryId,
    /// The pointer; `None` where it is damaged.
    pub target: Option<EventRange>,
}

/// The entries of an outbox beyond a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxPage {
    /// In order.
    pub pointers: Vec<Pointer>,
    /// Whether the outbox lacks the entry of the cursor itself, which trimming keeps: Redis has lost entries that were followed.
    pub lacks_cursor_entry: bool,
}

/// Entries of the event log of a tenant, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRange {
    /// The tenant of the log, or a sentinel.
    pub tenant: String,
    /// Of which day.
    pub day: Day,
    /// The first entry.
    pub first: EntryId,
    /// How many.
    pub count: usize,
}

impl EventRange {
    fn read(record: &Record) -> Option<Self> {
        let count = record.integer("count").ok()?;
        let count = usize::try_from(count).ok()?;
        // A blank in a name would break the rows of views.
        let named = |text: &&str| !text.is_empty() && !text.contains(char::is_whitespace);
        Some(Self {
            tenant: record.get("tenant").filter(named)?.to_owned(),
            day: Day::parse(record.get("day")?)?,
            first: EntryId::parse(record.get("first")?)?,
            count: Some(count).filter(|count| (1..=COUNT_MAX).contains(count))?,
        })
    }
}

impl Store {
    /// Up to `rows` entries of each outbox beyond its cursor; `None` where the node is out of reach.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub async fn read_outboxes(
        &self,
        cursors: &[(Partition, Option<EntryId>)],
        rows: usize,
    ) -> Result<Vec<Option<OutboxPage>>, StoreError> {
        let read = |(partition, cursor): &(Partition, Option<EntryId>)| {
            let from = cursor.map_or_else(|| "-".to_owned(), |cursor| cursor.to_string());
            let rows = rows + usize::from(cursor.is_some());
            stream_range(self.keys().outbox(*partition), &from, rows)
        };
        let pointer = |(entry, record): (EntryId, Record)| Pointer {
            entry,
            target: EventRange::read(&record),
        };
        let found = self.read_each::<Entries>(OnFailure::Skip, cursors.iter().map(read));
        let beyond = |(found, (_, cursor)): (Result<Entries, _>, &(_, Option<EntryId>))| {
            let mut pointers: Vec<_> = found.ok()?.0.into_iter().map(pointer).collect();
            let at_cursor = pointers.first().is_some_and(|p| Some(p.entry) == *cursor);
            if at_cursor {
                pointers.remove(0);
            }
            pointers.truncate(rows);
            Some(OutboxPage {
                pointers,
                lacks_cursor_entry: cursor.is_some() && !at_cursor,
            })
        };
        let pairs = found.await?.into_iter().zip(cursors);
        Ok(pairs.map(beyond).collect())
    }

    /// The facts that pointers lead to, fewer where some are gone; `None` where the node is out of reach.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub async fn read_targets(
        &self,
        targets: &[(Partition, &EventRange)],
    ) -> Result<Vec<Option<Vec<(EntryId, Record)>>>, StoreError> {
        let read = |(partition, target): &(Partition, &EventRange)| {
            let key = self.keys().events(*partition, &target.tenant, target.day);
            stream_range(key, &target.first.to_string(), target.count)
        };
        let found = self.read_each::<Entries>(OnFailure::Skip, targets.iter().map(read));
        let found = found.await?.into_iter();
        Ok(found.map(|entries| Some(entries.ok()?.0)).collect())
    }
}

fn stream_range(key: String, from: &str, count: usize) -> Command {
    command("XRANGE", key, (from, "+", "COUNT", count))
}

/// The entries of a stream. One that cannot be read is left out.
#[derive(Debug, Default)]
pub(in crate::store) struct Entries(pub Vec<(EntryId, Record)>);

impl FromRedisValue for Entries {
    fn from_redis_value(reply: Value) -> Result<Self, ParsingError> {
        let entry = |value: Value| {
            let (id, facts): (String, Vec<Vec<u8>>) = redis::from_redis_value(value).ok()?;
            let facts = facts.into_iter().map(lossy).collect();
            Some((EntryId::parse(&id)?, Record::from_pairs(facts)))
        };
        let values: Vec<Value> = redis::from_redis_value(reply)?;
        Ok(Self(values.into_iter().filter_map(entry).collect()))
    }
}
