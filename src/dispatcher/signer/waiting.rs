//! Entries that could not be signed, which are tried again in batches.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::Duration;

use tokio::time::Instant;

use crate::domain::log_entry::EntryId;

/// In the order of their places. A batch of which something could be signed is followed by the next one at once, so that what
/// an outage has left is signed as fast as what is new. A batch of which nothing could is followed after a pause.
#[derive(Debug)]
pub(super) struct Waiting {
    pause: Duration,
    entries: BTreeSet<EntryId>,
    /// The last entry that was tried; the next batch begins behind it.
    tried: EntryId,
    /// Whether something could be signed since the first one was tried.
    helped: bool,
    due_at: Option<Instant>,
}

impl Waiting {
    /// None yet. `pause`: how long they wait.
    pub fn new(pause: Duration) -> Self {
        Self {
            pause,
            entries: BTreeSet::new(),
            tried: EntryId::ZERO,
            helped: false,
            due_at: None,
        }
    }

    /// Adds one.
    pub fn add(&mut self, place: EntryId) {
        self.entries.insert(place);
        self.due_at
            .get_or_insert_with(|| Instant::now() + self.pause);
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn contains(&self, place: EntryId) -> bool {
        self.entries.contains(&place)
    }

    pub fn first(&self) -> Option<EntryId> {
        self.entries.first().copied()
    }

    /// The first entry of the batch that is due.
    pub fn due(&mut self, now: Instant) -> Option<EntryId> {
        if self.due_at.is_none_or(|at| at > now) {
            return None;
        }
        let behind = (Bound::Excluded(self.tried), Bound::Unbounded);
        if let Some(next) = self.entries.range(behind).next() {
            return Some(*next);
        }
        // Each was tried once: those that are left begin anew.
        self.tried = EntryId::ZERO;
        let Some(first) = self.first() else {
            self.due_at = None;
            return None;
        };
        if !std::mem::take(&mut self.helped) {
            self.due_at = Some(now + self.pause);
            return None;
        }
        Some(first)
    }

    /// Takes out the batch that is due, up to `last`, or all behind it.
    pub fn take(&mut self, last: Option<EntryId>) -> BTreeSet<EntryId> {
        let last = last.unwrap_or(EntryId {
            ms: u64::MAX,
            sequence: u64::MAX,
        });
        let behind = (Bound::Excluded(self.tried), Bound::Included(last));
        let batch: BTreeSet<EntryId> = self.entries.range(behind).copied().collect();
        for place in &batch {
            self.entries.remove(place);
        }
        self.tried = self.tried.max(last);
        batch
    }

    /// Notes whether something of the last batch could be signed.
    pub fn tried(&mut self, helped: bool) {
        self.helped |= helped;
        if !helped {
            self.due_at = Some(Instant::now() + self.pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(ms: u64) -> EntryId {
        EntryId { ms, sequence: 0 }
    }

    fn waiting(count: u64, pause: Duration) -> Waiting {
        let mut waiting = Waiting::new(pause);
        (1..=count).for_each(|ms| waiting.add(place(ms)));
        waiting
    }

    #[test]
    fn what_helped_goes_on_at_once() {
        let mut waiting = waiting(5, Duration::ZERO);
        let now = Instant::now() + Duration::from_secs(1);
        assert_eq!(waiting.due(now), Some(place(1)));
        assert_eq!(waiting.take(Some(place(2))).len(), 2);
        // One of them failed once more: it comes after the others.
        waiting.add(place(2));
        waiting.tried(true);
        assert_eq!(waiting.due(now), Some(place(3)));
        assert_eq!(waiting.take(None).len(), 3);
        waiting.tried(true);
        assert_eq!(waiting.due(now), Some(place(2)), "each was tried once");
        assert_eq!(waiting.take(None).len(), 1);
        waiting.tried(true);
        assert_eq!((waiting.due(now), waiting.first()), (None, None));
    }

    #[test]
    fn what_helped_nothing_waits_and_the_rest_comes_next() {
        let mut waiting = waiting(4, Duration::from_secs(60));
        let now = Instant::now();
        assert_eq!(waiting.due(now), None, "not yet");
        let later = now + Duration::from_secs(61);
        assert_eq!(waiting.due(later), Some(place(1)));
        waiting.take(Some(place(2)));
        (1..=2).for_each(|ms| waiting.add(place(ms)));
        waiting.tried(false);
        assert_eq!(waiting.due(now), None);
        assert_eq!(waiting.due(later), Some(place(3)));
        assert!(waiting.contains(place(1)) && waiting.first() == Some(place(1)));
    }
}
