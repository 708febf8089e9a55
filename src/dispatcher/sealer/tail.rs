//! Reading what follows the last sealed entry of a chain.
//!
//! Numbers rise along each day's log, and usually from day to day: then the tail begins behind the last sealed entry. Where
//! the clock of the store went back over midnight an earlier day has later numbers; so if the next number is not found
//! there, the end of every day's log is looked at before it counts as missing.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::domain::audit::StoredEntry;
use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::store::dispatcher::audit_chain::Chain;
use crate::store::dispatcher::audit_log::Stretch;
use crate::store::{Day, Store, StoreError};

/// Entries of one turn.
const ROWS: usize = 100;
/// Days that are read at once.
const DAYS: usize = 64;
/// How many times so many entries are read from the end of one day's log.
const PAGES_MAX: usize = 200;
/// How far before what retention keeps a chain is looked for that was never sealed.
const MARGIN_DAYS: i64 = 60;
const DAY_MS: u128 = 86_400_000;

/// What follows the last sealed entry: numbers without a gap, apart from those that are missing before the first.
#[derive(Debug, Clone, Default)]
pub struct Tail {
    /// In the order of their numbers.
    pub entries: Vec<TailEntry>,
    /// Numbers before the first that no entry has.
    pub missing: u64,
}

/// An entry that is to be sealed.
#[derive(Debug, Clone)]
pub struct TailEntry {
    /// The day of its log.
    pub day: Day,
    /// Its id there.
    pub id: EntryId,
    /// Its number in the chain.
    pub sequence: u64,
    /// When it was appended, in milliseconds.
    pub at_ms: i64,
    /// As it lies there.
    pub stored: StoredEntry,
}

pub(super) async fn read(
    store: &Store,
    keep: Duration,
    partition: Partition,
    name: &str,
    chain: &Chain,
) -> Result<Tail, StoreError> {
    let next = chain.sealed_sequence.max(chain.anchor_sequence) + 1;
    let last_day = store.today().plus(1);
    let kept_days = i64::try_from(keep.as_millis() / DAY_MS).unwrap_or(0) + MARGIN_DAYS;
    let oldest = store.today().plus(-kept_days);
    let (first_day, after) = match chain.sealed_at {
        Some((day, entry)) => (day, Some(entry)),
        None => (oldest, None),
    };
    let reader = Reader {
        store,
        partition,
        name,
        numbers: next..=chain.sequence,
    };
    let mut found = reader.onwards(first_day, last_day, after).await?;
    let expected = |found: &[TailEntry]| found.first().is_some_and(|entry| entry.sequence == next);
    if !expected(&found) && chain.sequence >= next {
        found = reader.backwards(oldest.min(first_day), last_day).await?;
    }
    let Some(first) = found.first().map(|entry| entry.sequence) else {
        return Ok(Tail::default());
    };
    let numbers = first..;
    let in_turn = found.iter().zip(numbers);
    let run = in_turn
        .take_while(|(entry, number)| entry.sequence == *number)
        .count();
    found.truncate(run.min(ROWS));
    Ok(Tail {
        entries: found,
        missing: first - next,
    })
}

struct Reader<'a> {
    store: &'a Store,
    partition: Partition,
    name: &'a str,
    /// What is to be sealed. What was appended since the chain was read waits for the next turn.
    numbers: RangeInclusive<u64>,
}

impl Reader<'_> {
    /// About a turn's entries from a place on, day by day.
    async fn onwards(
        &self,
        first: Day,
        last: Day,
        after: Option<EntryId>,
    ) -> Result<Vec<TailEntry>, StoreError> {
        let (mut found, mut day) = (Vec::new(), first);
        while day <= last && found.len() < ROWS {
            let stretch = |day: Day| Stretch {
                day,
                after: after.filter(|_| day == first),
                descending: false,
                rows: ROWS,
            };
            let days = (0..DAYS as i64).map(|further| day.plus(further));
            let stretches: Vec<_> = days.take_while(|day| *day <= last).map(stretch).collect();
            self.collect(&stretches, &mut found).await?;
            day = day.plus(DAYS as i64);
        }
        found.sort_by_key(|entry| entry.sequence);
        Ok(found)
    }

    /// What is not sealed of every day, from the end of its log.
    async fn backwards(&self, first: Day, last: Day) -> Result<Vec<TailEntry>, StoreError> {
        let mut found = Vec::new();
        let mut stretches: Vec<_> = std::iter::successors(Some(first), |day| Some(day.plus(1)))
            .take_while(|day| *day <= last)
            .map(|day| Stretch {
                day,
                after: None,
                descending: true,
                rows: ROWS,
            })
            .collect();
        for _ in 0..PAGES_MAX {
            let mut further = Vec::new();
            for stretches in stretches.chunks(DAYS) {
                further.extend(self.collect(stretches, &mut found).await?);
            }
            if further.is_empty() {
                break;
            }
            stretches = further;
        }
        found.sort_by_key(|entry| entry.sequence);
        Ok(found)
    }

    /// Adds what is not sealed yet; answers where to go on in the logs of which there may be more.
    async fn collect(
        &self,
        stretches: &[Stretch],
        found: &mut Vec<TailEntry>,
    ) -> Result<Vec<Stretch>, StoreError> {
        let logs = self
            .store
            .audit_entries(self.partition, self.name, stretches)
            .await?;
        let mut further = Vec::new();
        for (stretch, entries) in stretches.iter().zip(logs) {
            let full = entries.len() == stretch.rows;
            let before = found.len();
            let mut last = None;
            for stored in entries {
                let Some(entry) = TailEntry::read(stretch.day, stored) else {
                    continue;
                };
                last = Some(entry.id);
                if self.numbers.contains(&entry.sequence) {
                    found.push(entry);
                }
            }
            if full && found.len() > before {
                further.push(Stretch {
                    after: last,
                    ..*stretch
                });
            }
        }
        Ok(further)
    }
}

impl TailEntry {
    /// `None` for what no script of ours has appended.
    fn read(day: Day, stored: StoredEntry) -> Option<Self> {
        Some(Self {
            day,
            id: EntryId::parse(&stored.id)?,
            sequence: stored.sequence()?,
            at_ms: stored.get("at_ms")?.parse().ok()?,
            stored,
        })
    }
}
