//! Entries by client or tenant, in bounded memory. A new one always finds room: the least important ones make it.

use std::collections::HashMap;
use std::hash::Hash;

/// Entries by key, at most so many.
#[derive(Debug)]
pub struct BoundedTable<K, V> {
    entries_max: usize,
    entries: HashMap<K, V>,
}

impl<K: Eq + Hash + Clone, V> BoundedTable<K, V> {
    /// With room for this many entries.
    pub fn new(entries_max: usize) -> Self {
        Self {
            entries_max,
            entries: HashMap::new(),
        }
    }

    /// The entry of a key.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    /// The entry of a key, `new` if it has none. Where there is no room, only entries above the median `weight` stay: many go at once,
    /// because finding them looks at every entry.
    pub fn get_or_insert<W: Ord + Copy>(
        &mut self,
        key: &K,
        new: V,
        weight: impl Fn(&V) -> W,
    ) -> &mut V {
        if self.entries.len() >= self.entries_max && !self.entries.contains_key(key) {
            let mut weights: Vec<W> = self.entries.values().map(&weight).collect();
            let middle = weights.len() / 2;
            let (_, middle, _) = weights.select_nth_unstable(middle);
            self.entries.retain(|_, entry| weight(entry) > *middle);
        }
        self.entries.entry(key.clone()).or_insert(new)
    }

    /// Forgets all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newcomer_finds_room_and_the_weightiest_stay() {
        let mut table = BoundedTable::new(100);
        for key in 0..100 {
            *table.get_or_insert(&key, key, |weight| *weight) = key;
        }
        for newcomer in 1_000..2_000 {
            assert_eq!(*table.get_or_insert(&newcomer, 1, |weight| *weight), 1);
            assert!(table.len() <= 100);
        }
        assert!(table.get(&99).is_some() && table.get(&80).is_some());
        assert!(table.get(&1).is_none());
    }
}
