//! Reads the unsealed entries of an audit chain.
//!
//! Sequence numbers rise within each day's log, and usually from day to day; then the unsealed entries follow the last
//! sealed one. When Redis's clock went back over midnight, an earlier day has later numbers. So when the next number is not
//! found, the end of every day's log is searched before the number counts as missing.

use std::ops::RangeInclusive;

use super::Sealer;
use crate::domain::audit::StoredEntry;
use crate::domain::audit::query::stands_for_no_tenant;
use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::store::dispatcher::audit_chain::{Chain, NewSeals, Stretch};
use crate::store::dispatcher::index_rows::NewRow;
use crate::store::dispatcher::views::{KEY_ID, REQUEST_ID, RESOURCE_ID, Row, TRACE_ID, id_digest};
use crate::store::{Day, Store, StoreError};

/// Entries of one page.
const ROWS: usize = 100;
/// Days read in one call.
const DAYS: usize = 64;
/// Pages read from the end of one day's log.
const PAGES_MAX: usize = 200;
/// How many days before the retention period a chain without a seal is searched.
const MARGIN_DAYS: i64 = 60;
const DAY_MS: u128 = 86_400_000;

/// Unsealed entries of a chain, without gaps after the first.
#[derive(Debug, Clone, Default)]
pub struct Tail {
    /// In the order of their sequence numbers.
    pub entries: Vec<TailEntry>,
    /// Sequence numbers before the first entry that no entry has.
    pub missing: u64,
}

/// An unsealed entry.
#[derive(Debug, Clone)]
pub struct TailEntry {
    /// Day of its log.
    pub day: Day,
    /// Its id in that log.
    pub id: EntryId,
    /// Its sequence number in the chain.
    pub sequence: u64,
    /// When it was appended, in milliseconds.
    pub at_ms: i64,
    /// The stored fields.
    pub stored: StoredEntry,
}

impl Sealer {
    /// Reads the unsealed entries of a chain in the order of their sequence numbers.
    pub async fn tail(
        &self,
        partition: Partition,
        name: &str,
        chain: &Chain,
    ) -> Result<Tail, StoreError> {
        let next = chain.sealed_sequence.max(chain.anchor_sequence) + 1;
        let last_day = self.store.today().plus(1);
        let kept_days = i64::try_from(self.keep.as_millis() / DAY_MS).unwrap_or(0) + MARGIN_DAYS;
        let oldest = self.store.today().plus(-kept_days);
        let (first_day, after) = match chain.sealed_at {
            Some((day, entry)) => (day, Some(entry)),
            None => (oldest, None),
        };
        let reader = Reader {
            store: &self.store,
            partition,
            name,
            numbers: next..=chain.sequence,
        };
        let mut found = reader.forwards(first_day, last_day, after).await?;
        let expected =
            |found: &[TailEntry]| found.first().is_some_and(|entry| entry.sequence == next);
        if !expected(&found) && chain.sequence >= next {
            found = reader.backwards(oldest.min(first_day), last_day).await?;
        }
        let Some(first) = found.first().map(|entry| entry.sequence) else {
            return Ok(Tail::default());
        };
        let numbers = first..;
        let run = found
            .iter()
            .zip(numbers)
            .take_while(|(entry, number)| entry.sequence == *number)
            .count();
        found.truncate(run.min(ROWS));
        Ok(Tail {
            entries: found,
            missing: first - next,
        })
    }
}

struct Reader<'a> {
    store: &'a Store,
    partition: Partition,
    name: &'a str,
    /// Unsealed numbers. Entries appended after the chain was read wait for the next step.
    numbers: RangeInclusive<u64>,
}

impl Reader<'_> {
    /// About a page of entries after `after`, day by day.
    async fn forwards(
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
            let days = (0..DAYS as i64).map(|rest| day.plus(rest));
            let stretches: Vec<_> = days.take_while(|day| *day <= last).map(stretch).collect();
            self.collect(&stretches, &mut found).await?;
            day = day.plus(DAYS as i64);
        }
        found.sort_by_key(|entry| entry.sequence);
        Ok(found)
    }

    /// The unsealed entries of every day, from the end of its log.
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
            let mut rest = Vec::new();
            for stretches in stretches.chunks(DAYS) {
                rest.extend(self.collect(stretches, &mut found).await?);
            }
            if rest.is_empty() {
                break;
            }
            stretches = rest;
        }
        found.sort_by_key(|entry| entry.sequence);
        Ok(found)
    }

    /// Adds unsealed entries to `found` and returns where to continue in the logs that may have more.
    async fn collect(
        &self,
        stretches: &[Stretch],
        found: &mut Vec<TailEntry>,
    ) -> Result<Vec<Stretch>, StoreError> {
        let logs = self
            .store
            .audit_entries(self.partition, self.name, stretches)
            .await?;
        let mut rest = Vec::new();
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
                rest.push(Stretch {
                    after: last,
                    ..*stretch
                });
            }
        }
        Ok(rest)
    }
}

impl TailEntry {
    /// `None` for an entry that no script appended.
    pub(super) fn read(day: Day, stored: StoredEntry) -> Option<Self> {
        Some(Self {
            day,
            id: EntryId::parse(&stored.id)?,
            sequence: stored.sequence()?,
            at_ms: stored.get("at_ms")?.parse().ok()?,
            stored,
        })
    }
}

/// The seals of entries of one day that follow an entry with `hash`.
pub(super) fn seals(name: &str, hash: &str, entries: &[TailEntry]) -> NewSeals {
    let mut hash = hash.to_owned();
    let mut new = NewSeals {
        day: entries.first().map_or(Day::of_ms(0), |entry| entry.day),
        seals: Vec::with_capacity(entries.len()),
        last: EntryId::ZERO,
        hash: String::new(),
    };
    for entry in entries {
        let next = entry.stored.hash(name, &hash);
        new.seals
            .push((entry.sequence, std::mem::replace(&mut hash, next)));
        new.last = entry.id;
    }
    new.hash = hash;
    new
}

/// The row of an entry in the view, with the ids that it is indexed by.
pub(super) fn row(partition: Partition, name: &str, entry: &TailEntry) -> NewRow {
    let named = [
        (REQUEST_ID, "request_id"),
        (TRACE_ID, "trace_id"),
        (RESOURCE_ID, "resource_id"),
        (KEY_ID, "key_id"),
    ];
    let ids = named
        .into_iter()
        .filter_map(|(letter, field)| Some(id_digest(letter, entry.stored.get(field)?)));
    NewRow {
        day: entry.day,
        at_ms: entry.at_ms,
        row: Row {
            partition,
            entry: entry.id,
            tenant: name.to_owned(),
            kind: None,
        },
        // Entries of no tenant are in every partition, so they have an index of their own.
        kinds: Vec::from_iter(stands_for_no_tenant(name).then(|| name.to_owned())),
        ids: ids.collect(),
        denials: None,
    }
}
