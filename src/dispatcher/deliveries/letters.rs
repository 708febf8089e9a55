//! Remembers events that are ready to be sent: most are sent several times, and soon after they were read.

use std::sync::Arc;
use std::time::Duration;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::time::timeout;

use super::attempt::Letter;
use crate::store::dispatcher::deliveries::EventPlace;

/// Memory for them, in bytes.
const REMEMBERED_BYTES: u64 = 16 << 20;

/// How long to wait for another who reads the same event.
const OTHERS: Duration = Duration::from_millis(200);

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
    /// The letter of an event; reads it if it is not remembered, and nobody else is reading it.
    ///
    /// # Errors
    /// Those of `read`.
    pub(super) async fn get<E>(
        &self,
        place: &EventPlace,
        read: impl Future<Output = Result<Letter, E>>,
    ) -> Result<Arc<Letter>, E> {
        let known = timeout(OTHERS, self.0.get_value_or_guard_async(place));
        let guard = match known.await {
            Ok(Ok(letter)) => return Ok(letter),
            Ok(Err(guard)) => Some(guard),
            Err(_) => None,
        };
        let letter = Arc::new(read.await?);
        if let Some(guard) = guard {
            // It does not fit where it was pushed out meanwhile.
            let _ = guard.insert(Arc::clone(&letter));
        }
        Ok(letter)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::JoinSet;

    use super::*;
    use crate::domain::record::Record;

    fn place() -> EventPlace {
        EventPlace::parse("05f acme 20261123 1763859275000-7").expect("a place")
    }

    fn letter() -> Letter {
        let facts = [
            ("type", "tenant.updated"),
            ("at_ms", "1763859275000"),
            ("source", "service-admin"),
            ("actor", "admin"),
            ("trace_id", "0123456789abcdef0123456789abcdef"),
            ("data.changed_fields", "name"),
        ];
        let pairs = facts
            .into_iter()
            .flat_map(|(name, value)| [name.to_owned(), value.to_owned()]);
        Letter::of(&place(), &Record::from_pairs(pairs.collect())).expect("sound facts")
    }

    #[tokio::test]
    async fn an_event_that_is_sent_to_many_at_once_is_read_once() {
        let (letters, reads) = (Letters::default(), Arc::new(AtomicUsize::new(0)));
        let mut all = JoinSet::new();
        for _ in 0..50 {
            let (letters, reads) = (letters.clone(), Arc::clone(&reads));
            all.spawn(async move {
                let read = async {
                    reads.fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                    Ok::<_, ()>(letter())
                };
                letters.get(&place(), read).await
            });
        }
        let all = all.join_all().await;
        assert!(all.iter().all(Result::is_ok));
        assert_eq!(reads.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn nobody_waits_long_for_one_who_cannot_read() {
        let letters = Letters::default();
        let stuck = letters.clone();
        let stuck = tokio::spawn(async move {
            let read = pending::<Result<Letter, ()>>();
            stuck.get(&place(), read).await.map(|_| ())
        });
        tokio::task::yield_now().await;
        let read = async { Ok::<_, ()>(letter()) };
        assert!(letters.get(&place(), read).await.is_ok());
        stuck.abort();
        let _ = stuck.await;
        let place = place();
        let failed = letters.get(&place, async { Err::<Letter, _>("away") });
        assert_eq!(failed.await.map(|_| ()), Err("away"));
    }
}
