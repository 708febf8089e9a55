//! Remembers events that are ready to be sent: most are sent several times, and soon after they were read.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::attempt::Letter;
use crate::store::dispatcher::deliveries::EventPlace;

/// Memory for them, in bytes.
const REMEMBERED_BYTES: u64 = 16 << 20;

/// Letters for which the memory is laid out at first.
const LETTERS_AT_FIRST: usize = 1_000;

/// Letters by the places of their events, which never change. Cheap to clone.
#[derive(Clone)]
pub(super) struct Letters(Arc<Cache<EventPlace, Arc<Letter>, ByBytes>>);

#[derive(Clone)]
struct ByBytes;

impl Weighter<EventPlace, Arc<Letter>> for ByBytes {
    fn weight(&self, _: &EventPlace, letter: &Arc<Letter>) -> u64 {
        letter.bytes()
    }
}

impl Default for Letters {
    fn default() -> Self {
        let cache = Cache::with_weighter(LETTERS_AT_FIRST, REMEMBERED_BYTES, ByBytes);
        Self(Arc::new(cache))
    }
}

impl Letters {
    /// The letter of an event, if it is remembered.
    pub(super) fn get(&self, place: &EventPlace) -> Option<Arc<Letter>> {
        self.0.get(place)
    }

    /// Remembers a letter.
    pub(super) fn keep(&self, place: EventPlace, letter: Arc<Letter>) {
        self.0.insert(place, letter);
    }
}
