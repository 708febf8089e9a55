//! `index_view.lua`: adds rows to the indexes of a view.

use std::time::Duration;

use super::views::{Row, View, id_member};
use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::driver::script::Counted;
use crate::store::records::command;
use crate::store::signature::signature;
use crate::store::{Day, Lane, Store, StoreError, outcome};

signature! {
    /// Adds rows to the indexes of a view over all tenants, and moves the cursors of the outboxes that they came from, both or
    /// neither. A cursor that is not to move yet is its own next one. Where a cursor is not as the caller read it, another has
    /// followed that outbox meanwhile, and nothing of it is written. Adding a row again changes nothing. A cursor that is no id
    /// counts as none.
    ///
    /// Raises where the key of an index has another type.
    INDEX_VIEW: IndexView -> IndexViewReply = "dispatcher/index_view", flags "allow-oom";
    keys of views { write cursors: view_cursors(); }
    each { write indexes: view_rows | view_rows_of_kind | view_ids | denials_of_minute }
    args {
        /// When each index ends.
        ends_ms: Counted<&'a [i64]>,
        /// In order: partition, '' for rows that need no cursor; its cursor as it was read or ''; its cursor to be; a
        /// number of places; and in these for each row the number of its index, from 1; its score, or + and by how much
        /// the score rises if the row before it was not there yet; its member.
        followed: &'a [FollowedRows],
    }
    replies { indexed: Indexed { added: Vec<bool> } }
    writes "The indexes and the cursors of the outboxes whose reply is 1."
}

/// The rows of one outbox, with the cursors; each row with the number of its index, its score and its member.
type FollowedRows = ((String, String, String), Counted<Vec<IndexRow>>);
type IndexRow = (usize, String, String);

/// Rows that one call adds at best, so that it stays below a millisecond: each is a handful of commands.
pub const BATCH_ROWS: usize = 25;

/// How much longer than its logs a day of a view stays.
const MARGIN: Duration = Duration::from_secs(2 * 86_400);

/// How long the counts of a minute stay.
const MINUTES_MS: i64 = 2 * 3_600_000;

/// A row that is to be added.
#[derive(Debug, Clone)]
pub struct NewRow {
    /// The day of the log.
    pub day: Day,
    /// When it happened, in milliseconds.
    pub at_ms: i64,
    /// Where it lies.
    pub row: Row,
    /// Names of the indexes besides that of all rows.
    pub kinds: Vec<String>,
    /// Ids that it can be asked for by, as [`id_digest`] writes them.
    pub ids: Vec<String>,
    /// Its denials, which are counted by the minute, once however often the row is added.
    pub denials: Option<Denials>,
}

/// Denials of reservations in one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denials {
    /// Why.
    pub reason: String,
    /// How many: one, or all that were only counted in a minute.
    pub count: i64,
}

/// The followed entries of one partition's outbox.
#[derive(Debug)]
pub struct Followed {
    /// The partition.
    pub partition: Partition,
    /// Its cursor as it was read; `None` if it has none yet.
    pub read: Option<EntryId>,
    /// The last entry that was followed.
    pub next: EntryId,
    /// The events of its entries.
    pub rows: Vec<NewRow>,
}

impl Store {
    /// Up to which entry each of these outboxes has been followed; `None` where nobody has yet.
    pub async fn view_cursors(
        &self,
        partitions: &[Partition],
    ) -> Result<Vec<Option<EntryId>>, StoreError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let key = self.keys().view_cursors();
        let names: Vec<_> = partitions.iter().map(Partition::to_string).collect();
        let found: Vec<Option<String>> = self.read(command("HMGET", key, names)).await?;
        let cursor = |text: Option<String>| EntryId::parse(&text?);
        let mut cursors: Vec<_> = found.into_iter().map(cursor).collect();
        cursors.resize(partitions.len(), None);
        Ok(cursors)
    }

    /// Adds the events of each outbox that nobody else has followed meanwhile, and moves its cursor, in one step. Returns
    /// of which outboxes it did. `keep`: for how long the logs are kept.
    pub async fn index_followed(
        &self,
        followed: &[Followed],
        keep: Duration,
    ) -> Result<Vec<bool>, StoreError> {
        let mut call = IndexCall::new(self, View::Events, keep);
        for part in followed {
            let read = part.read.map(|cursor| cursor.to_string());
            let partition = part.partition.to_string();
            let next = part.next.to_string();
            call.push(partition, read.unwrap_or_default(), next, &part.rows);
        }
        call.run().await
    }

    /// Adds rows for a view whose source needs no cursor. `keep`: for how long the logs are kept.
    pub async fn index_rows(
        &self,
        view: View,
        rows: &[NewRow],
        keep: Duration,
    ) -> Result<(), StoreError> {
        for rows in rows.chunks(BATCH_ROWS) {
            let mut call = IndexCall::new(self, view, keep);
            call.push(String::new(), String::new(), String::new(), rows);
            call.run().await?;
        }
        Ok(())
    }
}

/// One call of `index_view.lua` that is being put together.
struct IndexCall<'a> {
    store: &'a Store,
    view: View,
    /// For how long after its end a day's indexes are kept.
    keep_ms: i64,
    indexes: Vec<String>,
    ends_ms: Vec<i64>,
    followed: Vec<FollowedRows>,
}

impl<'a> IndexCall<'a> {
    fn new(store: &'a Store, view: View, keep: Duration) -> Self {
        Self {
            store,
            view,
            keep_ms: i64::try_from((keep + MARGIN).as_millis()).unwrap_or(i64::MAX / 4),
            indexes: Vec::new(),
            ends_ms: Vec::new(),
            followed: Vec::new(),
        }
    }

    fn push(&mut self, partition: String, read: String, next: String, rows: &[NewRow]) {
        let (view, mut indexed) = (self.view.as_str(), Vec::new());
        for new in rows {
            let (member, keys) = (new.row.member(), self.store.keys());
            let ends_ms = new.day.plus(1).start_ms() + self.keep_ms;
            let mut indexes = vec![keys.view(view, None, new.day)];
            let kinds = new.kinds.iter();
            indexes.extend(kinds.map(|kind| keys.view(view, Some(kind), new.day)));
            for index in indexes {
                let number = self.number_of(index, ends_ms);
                indexed.push((number, new.at_ms.to_string(), member.clone()));
            }
            // Behind a row of the same event, which shows whether they were counted before.
            if let Some(denials) = &new.denials {
                let minute_ms = new.at_ms - new.at_ms.rem_euclid(60_000);
                let key = keys.denials_of_minute(minute_ms);
                let number = self.number_of(key, minute_ms + MINUTES_MS);
                let by = format!("+{}", denials.count.max(0));
                indexed.push((number, by, denials.reason.clone()));
            }
            for id in &new.ids {
                let number = self.number_of(keys.view_ids(view, new.day), ends_ms);
                let member = id_member(id, new.at_ms, &member);
                indexed.push((number, "0".to_owned(), member));
            }
        }
        self.followed
            .push(((partition, read, next), Counted(indexed)));
    }

    /// The number of an index in this call, from 1.
    fn number_of(&mut self, key: String, ends_ms: i64) -> usize {
        let known = self.indexes.iter().position(|other| *other == key);
        let place = known.unwrap_or_else(|| {
            self.ends_ms.push(ends_ms);
            self.indexes.push(key);
            self.indexes.len() - 1
        });
        place + 1
    }

    async fn run(self) -> Result<Vec<bool>, StoreError> {
        let call = IndexView {
            indexes: self.indexes,
            ends_ms: Counted(&self.ends_ms),
            followed: &self.followed,
        };
        let IndexViewReply::Indexed { added } =
            outcome(self.store.run(Lane::Background, &call).await)?;
        Ok(added)
    }
}
