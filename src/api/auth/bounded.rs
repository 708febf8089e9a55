//! Entries by client or tenant, in bounded memory.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// How often at most to look at all entries for those to forget.
const PRUNE_EVERY: Duration = Duration::from_secs(1);

/// Entries by key, of which a part can be forgotten after some time.
#[derive(Debug)]
pub(super) struct BoundedTable<K, V> {
    entries_max: usize,
    entries: HashMap<K, V>,
    /// When the entries to forget were removed last.
    pruned: Option<Instant>,
}

impl<K: Eq + Hash + Clone, V> BoundedTable<K, V> {
    /// With room for this many entries.
    pub(super) fn new(entries_max: usize) -> Self {
        Self {
            entries_max,
            entries: HashMap::new(),
            pruned: None,
        }
    }

    /// The entry of a key.
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    /// The entry of a key, `new` if it has none; `None` if there is no room, not even without those entries that are not `remembered`.
    pub(super) fn get_or_insert(
        &mut self,
        key: &K,
        new: V,
        now: Instant,
        remembered: impl Fn(&V) -> bool,
    ) -> Option<&mut V> {
        if !self.entries.contains_key(key) {
            let just_now = |at: Instant| now.duration_since(at) < PRUNE_EVERY;
            if self.entries.len() >= self.entries_max && !self.pruned.is_some_and(just_now) {
                self.entries.retain(|_, entry| remembered(entry));
                self.pruned = Some(now);
            }
            if self.entries.len() >= self.entries_max {
                return None;
            }
            self.entries.insert(key.clone(), new);
        }
        self.entries.get_mut(key)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
