//! Keys that passes over many partitions cannot read, because they hold something else than they should.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::error;

use super::Store;

/// How long a key is not logged again: passes meet it several times a second.
const LOGGED_FOR: Duration = Duration::from_secs(60);

/// When each of these keys was logged.
#[derive(Default)]
pub(super) struct Unreadable(Mutex<BTreeMap<String, Instant>>);

impl Unreadable {
    /// Whether a key is to be logged now; if so, it counts as logged.
    fn is_to_log(&self, key: &str, now: Instant) -> bool {
        let mut logged = self.0.lock();
        logged.retain(|_, at| now.duration_since(*at) < LOGGED_FOR);
        let is_new = !logged.contains_key(key);
        if is_new {
            logged.insert(key.to_owned(), now);
        }
        is_new
    }
}

impl Store {
    /// Counts that a pass could not read a key, and logs it once a minute.
    pub(super) fn note_unreadable(&self, key: &str, why: &str) {
        self.inner.metrics.unreadable_keys.inc();
        self.log_unreadable(key, "the work that needs it waits", why);
    }

    /// Logs once a minute that a key cannot be read, and what follows from that.
    pub(crate) fn log_unreadable(&self, key: &str, effect: &str, why: &str) {
        if self.inner.unreadable.is_to_log(key, Instant::now()) {
            error!(
                redis.key = key,
                error = why,
                "key `{key}` cannot be read, so {effect} until it is repaired: {why}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_logged_once_a_minute() {
        let (unreadable, now) = (Unreadable::default(), Instant::now());
        let logs = |key, seconds| unreadable.is_to_log(key, now + Duration::from_secs(seconds));
        let logged = [("a", 0), ("a", 59), ("b", 59), ("a", 60), ("b", 60)];
        let logged = logged.map(|(key, seconds)| logs(key, seconds));
        assert_eq!(logged, [true, false, true, true, false]);
    }
}
