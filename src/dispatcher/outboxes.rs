//! Reads the outboxes of the leased partitions for all that follow them: what one has read is at hand for the others.
//!
//! Each follower has cursors of its own, and passes of its own. Whoever comes to a place first reads on from there; who comes
//! after it soon finds that here. One that is further behind reads for itself, so nobody waits for another.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::domain::record::Record;
use crate::store::dispatcher::outbox::{Pointer, Target};
use crate::store::{Store, StoreError};

/// Entries of one outbox that are read at once.
pub(super) const ROWS: usize = 100;

/// Pointers whose events are read at once.
pub(super) const READ_ROWS: usize = 500;

/// Entries of one outbox that are at hand, and entries and events of all.
const KEPT_OF_ONE: usize = 2 * ROWS;
const KEPT: usize = 5_000;

/// How long they are.
const KEPT_FOR: Duration = Duration::from_secs(2);

/// A place in the outbox of a partition.
pub(super) type Place = (Partition, Option<EntryId>);

/// The facts of the events that a pointer leads to.
pub(super) type Facts = Arc<Vec<(EntryId, Record)>>;

/// An entry of an outbox, and its events once somebody has read them.
#[derive(Debug)]
pub(super) struct Read {
    pub pointer: Pointer,
    facts: OnceLock<Facts>,
}

/// What an outbox holds beyond a place.
#[derive(Debug, Clone)]
pub(super) struct Beyond {
    /// In order.
    pub entries: Vec<Arc<Read>>,
    /// Whether these are all.
    pub is_whole: bool,
    /// Whether the outbox lacks the entry of the place itself, which trimming leaves: the store has lost what was followed.
    pub turned_back: bool,
    /// A time before it was read, by the clock of any node, in milliseconds.
    pub as_of_ms: i64,
}

/// See the module.
pub struct Outboxes {
    store: Store,
    tails: Mutex<HashMap<Partition, Tail>>,
}

/// What was read last of an outbox.
struct Tail {
    after: Option<EntryId>,
    entries: Vec<Arc<Read>>,
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

    /// What lies beyond these places; `None` where the node is out of reach. What was read within `age` is taken as it was.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub(super) async fn read(
        &self,
        places: &[Place],
        age: Duration,
    ) -> Result<Vec<Option<Beyond>>, StoreError> {
        let mut found: Vec<Option<Beyond>> = self.at_hand(places, age);
        let lacking: Vec<usize> = (0..places.len())
            .filter(|at| found[*at].is_none())
            .collect();
        if lacking.is_empty() {
            return Ok(found);
        }
        // Before the outboxes are read: events that they lack are later than this.
        let times = self.store.node_times().await?;
        let as_of_ms = times.iter().map(|(_, ms)| *ms).min().unwrap_or(0);
        let wanted: Vec<Place> = lacking.iter().map(|at| places[*at]).collect();
        let read = self.store.read_outboxes(&wanted, ROWS).await?;
        let mut tails = self.tails();
        for (at, beyond) in lacking.into_iter().zip(read) {
            found[at] = beyond.map(|beyond| {
                let entries = beyond.pointers.into_iter().map(Read::of);
                let beyond = Beyond {
                    entries: entries.collect(),
                    is_whole: false,
                    turned_back: beyond.turned_back,
                    as_of_ms,
                };
                keep(&mut tails, places[at], beyond)
            });
        }
        tails.retain(|_, tail| tail.at.elapsed() < KEPT_FOR);
        let entries = tails.values().flat_map(|tail| &tail.entries);
        if entries.map(|entry| 1 + entry.events()).sum::<usize>() > KEPT {
            tails.clear();
        }
        Ok(found)
    }

    /// Reads what lies beyond a place that most have passed, and keeps it for nobody else.
    ///
    /// # Errors
    /// [`StoreError`] when the node does not answer.
    pub(super) async fn read_alone(&self, place: Place) -> Result<Vec<Arc<Read>>, StoreError> {
        let read = self.store.read_outboxes(&[place], ROWS).await?;
        let beyond = read.into_iter().next().flatten();
        let pointers = beyond.map(|beyond| beyond.pointers).unwrap_or_default();
        Ok(pointers.into_iter().map(Read::of).collect())
    }

    /// The facts of the events that these entries lead to, fewer where some are gone; `None` where the node is out of reach. A
    /// damaged entry leads to none.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub(super) async fn facts(
        &self,
        entries: &[(Partition, &Arc<Read>)],
    ) -> Result<Vec<Option<Facts>>, StoreError> {
        for some in entries.chunks(READ_ROWS) {
            let lacking = some.iter().filter(|(_, entry)| entry.facts.get().is_none());
            let lacking = lacking.filter_map(|(partition, entry)| {
                let target = entry.pointer.target.as_ref()?;
                Some((*partition, target, *entry))
            });
            let lacking: Vec<(Partition, &Target, &Arc<Read>)> = lacking.collect();
            if lacking.is_empty() {
                continue;
            }
            let targets: Vec<_> = lacking.iter().map(|(p, target, _)| (*p, *target)).collect();
            let read = self.store.read_targets(&targets).await?;
            for ((_, _, entry), facts) in lacking.into_iter().zip(read) {
                if let Some(facts) = facts {
                    let _ = entry.facts.set(Arc::new(facts));
                }
            }
        }
        let facts = |(_, entry): &(Partition, &Arc<Read>)| match &entry.pointer.target {
            None => Some(Facts::default()),
            Some(_) => entry.facts.get().cloned(),
        };
        Ok(entries.iter().map(facts).collect())
    }

    fn at_hand(&self, places: &[Place], age: Duration) -> Vec<Option<Beyond>> {
        if age.is_zero() {
            return vec![None; places.len()];
        }
        let tails = self.tails();
        let beyond = |(partition, from): &Place| {
            let tail = tails.get(partition)?;
            let from = tail.place_of(*from)?;
            // What is not whole and has nothing more was read to its end.
            let is_new = from < tail.entries.len() || tail.is_whole;
            (is_new && tail.at.elapsed() <= age).then(|| Beyond {
                entries: tail.entries[from..].to_vec(),
                is_whole: tail.is_whole,
                turned_back: false,
                as_of_ms: tail.as_of_ms,
            })
        };
        places.iter().map(beyond).collect()
    }

    fn tails(&self) -> MutexGuard<'_, HashMap<Partition, Tail>> {
        self.tails.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Read {
    fn of(pointer: Pointer) -> Arc<Self> {
        Arc::new(Self {
            pointer,
            facts: OnceLock::new(),
        })
    }

    /// How many events of it are at hand.
    fn events(&self) -> usize {
        self.facts.get().map_or(0, |facts| facts.len())
    }
}

/// How many of these entries lead to no more events than so many; at least one.
pub(super) fn fitting(entries: &[Arc<Read>], events_max: usize) -> usize {
    let count = |entry: &Arc<Read>| {
        entry
            .pointer
            .target
            .as_ref()
            .map_or(0, |target| target.count)
    };
    let mut events = 0;
    let fits = entries.iter().take_while(|entry| {
        events += count(entry);
        events <= events_max
    });
    fits.count().max(1).min(entries.len())
}

/// To how many events these entries lead.
pub(super) fn events_of(entries: &[Arc<Read>]) -> usize {
    let targets = entries
        .iter()
        .filter_map(|entry| entry.pointer.target.as_ref());
    targets.map(|target| target.count).sum()
}

impl Tail {
    /// How many of its entries are done for one who is at this place; `None` where the place is none of it.
    fn place_of(&self, place: Option<EntryId>) -> Option<usize> {
        if self.after == place {
            return Some(0);
        }
        let at = |entry: &Arc<Read>| Some(entry.pointer.entry) == place;
        Some(self.entries.iter().rposition(at)? + 1)
    }
}

/// Keeps what was read beyond a place. Of what was at hand already, it has the events that were read of it.
fn keep(tails: &mut HashMap<Partition, Tail>, place: Place, mut beyond: Beyond) -> Beyond {
    let (partition, from) = place;
    beyond.is_whole = beyond.entries.len() < ROWS;
    let known = tails.remove(&partition);
    // The ids of entries that were lost may stand for others by now.
    if beyond.turned_back {
        return beyond;
    }
    let before = known.and_then(|tail| Some((tail.place_of(from)?, tail)));
    let (after, mut entries) = match before {
        None => (from, Vec::new()),
        Some((done, Tail { after, entries, .. })) => {
            let known = entries[done..].iter();
            let known: BTreeMap<EntryId, &Arc<Read>> =
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
    let surplus = entries.len().saturating_sub(KEPT_OF_ONE);
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
mod tests {
    use super::*;
    use crate::store::Day;

    fn id(ms: u64) -> EntryId {
        EntryId { ms, sequence: 0 }
    }

    fn beyond(entries: std::ops::Range<u64>, turned_back: bool) -> Beyond {
        let pointer = |ms| Pointer {
            entry: id(ms),
            target: None,
        };
        Beyond {
            entries: entries.map(|ms| Read::of(pointer(ms))).collect(),
            is_whole: false,
            turned_back,
            as_of_ms: 7,
        }
    }

    #[test]
    fn entries_fit_up_to_a_number_of_events() {
        let of = |count| {
            let target = Target {
                tenant: "acme".to_owned(),
                day: Day::of_ms(0),
                first: id(1),
                count,
            };
            Read::of(Pointer {
                entry: id(1),
                target: Some(target),
            })
        };
        let entries = [of(3), of(1), of(100), of(1)];
        assert_eq!(events_of(&entries), 105);
        let fits = [1, 3, 4, 103, 104, 105].map(|most| fitting(&entries, most));
        assert_eq!(fits, [1, 1, 2, 2, 3, 4]);
        assert_eq!(fitting(&[], 7), 0);
    }

    /// The entries that are at hand for one who is at this place.
    fn at_hand(tails: &HashMap<Partition, Tail>, place: Option<EntryId>) -> Option<Vec<u64>> {
        let tail = tails.get(&Partition::FIRST)?;
        let entries = &tail.entries[tail.place_of(place)?..];
        Some(entries.iter().map(|entry| entry.pointer.entry.ms).collect())
    }

    #[test]
    fn what_is_read_on_from_the_end_of_a_tail_belongs_to_it() {
        let mut tails = HashMap::new();
        let first = Partition::FIRST;
        keep(&mut tails, (first, Some(id(1))), beyond(2..4, false));
        keep(&mut tails, (first, Some(id(3))), beyond(4..6, false));
        assert_eq!(at_hand(&tails, Some(id(1))), Some(vec![2, 3, 4, 5]));
        assert_eq!(at_hand(&tails, Some(id(4))), Some(vec![5]));
        assert_eq!(at_hand(&tails, Some(id(5))), Some(vec![]));
        assert_eq!(at_hand(&tails, Some(id(6))), None);
        assert_eq!(at_hand(&tails, None), None);
    }

    #[test]
    fn an_entry_that_is_read_again_keeps_its_events() {
        let mut tails = HashMap::new();
        let first = Partition::FIRST;
        let read = keep(&mut tails, (first, None), beyond(2..4, false));
        let again = keep(&mut tails, (first, Some(id(2))), beyond(3..5, false));
        assert!(Arc::ptr_eq(&read.entries[1], &again.entries[0]));
        assert_eq!(at_hand(&tails, None), Some(vec![2, 3, 4]));
    }

    #[test]
    fn another_place_and_lost_entries_end_a_tail() {
        let mut tails = HashMap::new();
        let first = Partition::FIRST;
        keep(&mut tails, (first, Some(id(1))), beyond(2..4, false));
        keep(&mut tails, (first, Some(id(9))), beyond(10..11, false));
        assert_eq!(at_hand(&tails, Some(id(9))), Some(vec![10]));
        assert_eq!(at_hand(&tails, Some(id(3))), None);
        keep(&mut tails, (first, Some(id(10))), beyond(3..4, true));
        assert_eq!(at_hand(&tails, Some(id(9))), None);
    }

    #[test]
    fn a_tail_stays_short() {
        let mut tails = HashMap::new();
        let first = Partition::FIRST;
        let reads = (0..20_u64).map(|read| (read * 50, read * 50 + 50));
        for (from, to) in reads {
            let place = (first, from.checked_sub(1).map(id));
            keep(&mut tails, place, beyond(from..to, false));
        }
        assert_eq!(tails[&first].entries.len(), KEPT_OF_ONE);
        assert_eq!(at_hand(&tails, Some(id(998))), Some(vec![999]));
        assert_eq!(at_hand(&tails, Some(id(799))).map(|it| it.len()), Some(200));
    }
}
