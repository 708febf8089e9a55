//! Reads the outboxes of the leased partitions for the fan-out and the views, and caches the entries: the second reader of an
//! entry finds it here.
//!
//! Each reader has its own cursors and passes. One that is further behind than the cache reads from Redis, so no reader waits for
//! another.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::warn;

use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::domain::record::Record;
use crate::store::dispatcher::outbox::{EventRange, Pointer};
use crate::store::{Store, StoreError};

/// Entries of one outbox that are read at once.
pub(super) const ROWS: usize = 100;

/// Pointers whose events are read at once, about.
pub(super) const READ_ROWS: usize = 500;

/// Cached entries of one outbox, and cached entries and events of all.
const CACHED_OF_ONE: usize = 2 * ROWS;
const CACHED_MAX: usize = 5_000;

/// How long they are cached.
const CACHED_FOR: Duration = Duration::from_secs(2);

/// How far before its place an outbox is read again after it lost entries, in milliseconds: more than a replica that takes
/// over can lack, and than its clock can be behind.
const REWIND_MS: u64 = 3_600_000;

/// A partition, and the last entry of its outbox that was followed.
pub(super) type OutboxCursor = (Partition, Option<EntryId>);

/// The facts of the events that a pointer leads to.
pub(super) type Facts = Arc<Vec<(EntryId, Record)>>;

/// An entry of an outbox, and its events once a reader has read them.
#[derive(Debug)]
pub(super) struct CachedEntry {
    pub pointer: Pointer,
    facts: OnceLock<Facts>,
}

/// The entries of an outbox beyond a cursor.
#[derive(Debug, Clone)]
pub(super) struct NewEntries {
    /// In order.
    pub entries: Vec<Arc<CachedEntry>>,
    /// Whether these are all.
    pub is_whole: bool,
    /// Whether the outbox lacks the entry of the cursor itself, which trimming keeps: Redis has lost entries that were followed.
    pub lacks_cursor_entry: bool,
    /// A time before it was read, by the clock of any node, in milliseconds.
    pub as_of_ms: i64,
}

/// A cached reader of outboxes.
pub struct Outboxes {
    pub(super) store: Store,
    tails: Mutex<HashMap<Partition, Tail>>,
}

/// The cached entries of an outbox.
struct Tail {
    after: Option<EntryId>,
    entries: Vec<Arc<CachedEntry>>,
    is_whole: bool,
    as_of_ms: i64,
    at: Instant,
}

impl Outboxes {
    /// Reads the outboxes of `store`.
    pub fn new(store: Store) -> Self {
        Self {
            store,
            tails: Mutex::default(),
        }
    }

    /// The entries beyond these places; `None` where the node is out of reach. Those that were read within `age` come from the cache.
    ///
    /// An outbox that lost the entry of its place is read again from an hour before: a replica of Redis that took over without the
    /// last entries uses their ids again, and lower ones where its clock is behind. To follow an entry again changes nothing.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub(super) async fn read(
        &self,
        places: &[OutboxCursor],
        age: Duration,
    ) -> Result<Vec<Option<NewEntries>>, StoreError> {
        let mut found = self.read_beyond(places, age).await?;
        let has_lost = |at: &usize| {
            found[*at].as_ref().is_some_and(|beyond| {
                // The place before an entry that is done in part need not exist.
                let first = beyond.entries.first().map(|it| it.pointer.entry.before());
                beyond.lacks_cursor_entry && first != places[*at].1
            })
        };
        let lost: Vec<usize> = (0..places.len()).filter(has_lost).collect();
        if lost.is_empty() {
            return Ok(found);
        }
        let earlier = |at: &usize| {
            let (partition, place) = places[*at];
            let place = place.map(|place| EntryId {
                ms: place.ms.saturating_sub(REWIND_MS),
                sequence: 0,
            });
            (partition, place)
        };
        let earlier: Vec<OutboxCursor> = lost.iter().map(earlier).collect();
        let again = self.read_beyond(&earlier, Duration::ZERO).await?;
        for ((at, (partition, _)), beyond) in lost.into_iter().zip(earlier).zip(again) {
            if beyond.as_ref().is_some_and(|it| !it.entries.is_empty()) {
                warn!(
                    %partition,
                    "the outbox of {partition} lost entries that were followed; it is read again from an hour before"
                );
            }
            found[at] = beyond;
        }
        Ok(found)
    }

    async fn read_beyond(
        &self,
        places: &[OutboxCursor],
        age: Duration,
    ) -> Result<Vec<Option<NewEntries>>, StoreError> {
        let mut found: Vec<Option<NewEntries>> = self.cached(places, age);
        let lacking: Vec<usize> = (0..places.len())
            .filter(|at| found[*at].is_none())
            .collect();
        if lacking.is_empty() {
            return Ok(found);
        }
        // Before the outboxes are read: events that they lack are later than this.
        let times = self.store.node_times().await?;
        let as_of_ms = times.iter().map(|(_, ms)| *ms).min().unwrap_or(0);
        let wanted: Vec<OutboxCursor> = lacking.iter().map(|at| places[*at]).collect();
        let read = self.store.read_outboxes(&wanted, ROWS).await?;
        let mut tails = self.tails.lock();
        for (at, beyond) in lacking.into_iter().zip(read) {
            found[at] = beyond.map(|beyond| {
                let entries = beyond.pointers.into_iter().map(CachedEntry::of);
                let beyond = NewEntries {
                    entries: entries.collect(),
                    is_whole: false,
                    lacks_cursor_entry: beyond.lacks_cursor_entry,
                    as_of_ms,
                };
                cache(&mut tails, places[at], beyond)
            });
        }
        tails.retain(|_, tail| tail.at.elapsed() < CACHED_FOR);
        let entries = tails.values().flat_map(|tail| &tail.entries);
        if entries.map(|entry| 1 + entry.events()).sum::<usize>() > CACHED_MAX {
            tails.clear();
        }
        Ok(found)
    }

    /// The facts of the events that these entries lead to, fewer where some are gone; `None` where the node is out of reach. A
    /// damaged entry leads to none.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub(super) async fn facts(
        &self,
        entries: &[(Partition, &Arc<CachedEntry>)],
    ) -> Result<Vec<Option<Facts>>, StoreError> {
        let lacking = entries.iter().filter_map(|(partition, entry)| {
            let target = entry.pointer.target.as_ref()?;
            let lacks = entry.facts.get().is_none();
            lacks.then_some(((*partition, target), entry))
        });
        let (targets, lacking): (Vec<(Partition, &EventRange)>, Vec<&&Arc<CachedEntry>>) =
            lacking.unzip();
        let read = match targets.is_empty() {
            true => Vec::new(),
            false => self.store.read_targets(&targets).await?,
        };
        for (entry, facts) in lacking.into_iter().zip(read) {
            if let Some(facts) = facts {
                let _ = entry.facts.set(Arc::new(facts));
            }
        }
        let facts = |(_, entry): &(Partition, &Arc<CachedEntry>)| match &entry.pointer.target {
            None => Some(Facts::default()),
            Some(_) => entry.facts.get().cloned(),
        };
        Ok(entries.iter().map(facts).collect())
    }

    fn cached(&self, places: &[OutboxCursor], age: Duration) -> Vec<Option<NewEntries>> {
        if age.is_zero() {
            return vec![None; places.len()];
        }
        let tails = self.tails.lock();
        let beyond = |(partition, from): &OutboxCursor| {
            let tail = tails.get(partition)?;
            let from = tail.place_of(*from)?;
            // What is not whole and has nothing more was read to its end.
            let is_new = from < tail.entries.len() || tail.is_whole;
            (is_new && tail.at.elapsed() <= age).then(|| NewEntries {
                entries: tail.entries[from..].to_vec(),
                is_whole: tail.is_whole,
                lacks_cursor_entry: false,
                as_of_ms: tail.as_of_ms,
            })
        };
        places.iter().map(beyond).collect()
    }
}

impl CachedEntry {
    pub fn of(pointer: Pointer) -> Arc<Self> {
        Arc::new(Self {
            pointer,
            facts: OnceLock::new(),
        })
    }

    /// Number of events that it leads to.
    fn targets(&self) -> usize {
        let target = self.pointer.target.as_ref();
        target.map_or(0, |target| target.count)
    }

    /// Number of its cached events.
    fn events(&self) -> usize {
        self.facts.get().map_or(0, |facts| facts.len())
    }
}

/// Number of these entries that have at most this many events; at least one.
pub(super) fn fitting(entries: &[Arc<CachedEntry>], events_max: usize) -> usize {
    let mut events = 0;
    let fits = entries.iter().take_while(|entry| {
        events += entry.targets();
        events <= events_max
    });
    fits.count().max(1).min(entries.len())
}

/// Number of events that these entries lead to.
pub(super) fn events_of(entries: &[Arc<CachedEntry>]) -> usize {
    entries.iter().map(|entry| entry.targets()).sum()
}

impl Tail {
    /// Number of its entries up to a place; `None` where the place is not in it.
    fn place_of(&self, place: Option<EntryId>) -> Option<usize> {
        if self.after == place {
            return Some(0);
        }
        let at = |entry: &Arc<CachedEntry>| Some(entry.pointer.entry) == place;
        Some(self.entries.iter().rposition(at)? + 1)
    }
}

/// Caches the entries beyond a place. Entries that were cached before keep their events.
fn cache(
    tails: &mut HashMap<Partition, Tail>,
    place: OutboxCursor,
    mut beyond: NewEntries,
) -> NewEntries {
    let (partition, from) = place;
    beyond.is_whole = beyond.entries.len() < ROWS;
    let known = tails.remove(&partition);
    // The ids of lost entries may belong to others by now.
    if beyond.lacks_cursor_entry {
        return beyond;
    }
    let before = known.and_then(|tail| Some((tail.place_of(from)?, tail)));
    let (after, mut entries) = match before {
        None => (from, Vec::new()),
        Some((done, Tail { after, entries, .. })) => {
            let known = entries[done..].iter();
            let known: BTreeMap<EntryId, &Arc<CachedEntry>> =
                known.map(|entry| (entry.pointer.entry, entry)).collect();
            for entry in &mut beyond.entries {
                let same = known.get(&entry.pointer.entry);
                if let Some(same) = same.filter(|same| same.pointer == entry.pointer) {
                    *entry = Arc::clone(same);
                }
            }
            (after, entries[..done].to_vec())
        }
    };
    entries.extend(beyond.entries.iter().map(Arc::clone));
    let surplus = entries.len().saturating_sub(CACHED_OF_ONE);
    let dropped = entries.drain(..surplus).next_back();
    let tail = Tail {
        after: dropped.map_or(after, |entry| Some(entry.pointer.entry)),
        entries,
        is_whole: beyond.is_whole,
        as_of_ms: beyond.as_of_ms,
        at: Instant::now(),
    };
    tails.insert(partition, tail);
    beyond
}

#[cfg(test)]
mod tests;
