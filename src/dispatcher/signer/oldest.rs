//! How long what waits has waited.

use std::time::Duration;

use tokio::time::Instant;

use crate::dispatcher::sweep::ClockWatch;
use crate::domain::log_entry::EntryId;
use crate::store::{Store, StoreError};

/// An entry that is older should have been signed and confirmed.
pub(super) const OLD: Duration = Duration::from_secs(300);

/// A moment, by this process and by the store's clock in milliseconds: `None` where that has just jumped.
pub(super) type Moment = (Instant, Option<i64>);

/// The present. After a jump, what was queued before it is confirmed by the time at which the store's clock counts again.
pub(super) async fn now(store: &Store, clock: &ClockWatch) -> Result<Moment, StoreError> {
    let (now_ms, _) = clock.time(store).await?;
    Ok((
        Instant::now(),
        (!clock.jumped_within(OLD)).then_some(now_ms),
    ))
}

/// The oldest of some entries of a stream, and since when this process knows it to be that.
#[derive(Debug, Default)]
pub(super) struct Oldest(Option<(EntryId, Instant)>);

impl Oldest {
    /// How long an entry has waited that is the oldest at a moment. Its place tells when it was queued, but not after the clock
    /// was set back: places only rise, so it lies ahead of the clock then. So it has waited at least since it was first seen.
    /// After the clock jumped ahead, its place tells nothing.
    pub fn age(&mut self, oldest: EntryId, (now, now_ms): Moment) -> Duration {
        let seen_at = match self.0 {
            Some((entry, seen_at)) if entry == oldest => seen_at,
            _ => now,
        };
        self.0 = Some((oldest, seen_at));
        let by_place_ms =
            now_ms.map_or(0, |now_ms| now_ms.saturating_sub_unsigned(oldest.ms).max(0));
        Duration::from_millis(by_place_ms.unsigned_abs()).max(now - seen_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(ms: u64, sequence: u64) -> EntryId {
        EntryId { ms, sequence }
    }

    #[test]
    fn an_entry_waits_since_its_time_or_since_it_was_seen_whatever_is_earlier() {
        let (begun, mut oldest) = (Instant::now(), Oldest::default());
        let mut age = |entry, after_s: u64, now_ms| {
            let now = begun + Duration::from_secs(after_s);
            oldest.age(entry, (now, now_ms)).as_secs()
        };
        assert_eq!(age(place(5_000, 0), 0, Some(7_000)), 2);
        assert_eq!(age(place(5_000, 0), 1, Some(8_000)), 3);
        // The clock is set back, and the same entry still waits.
        assert_eq!(age(place(5_000, 0), 2, Some(1_000)), 2);
        assert_eq!(age(place(5_000, 0), 400, Some(399_000)), 400);
        // It was signed, and the next one is ahead of the clock.
        assert_eq!(age(place(9_000_000, 1), 401, Some(400_000)), 0);
        assert_eq!(age(place(9_000_000, 1), 702, Some(701_000)), 301);
        assert_eq!(age(place(9_000_000, 2), 703, Some(702_000)), 0);
        // Another one was queued before the clock jumped.
        assert_eq!(age(place(700_000, 0), 704, None), 0);
        assert_eq!(age(place(700_000, 0), 705, None), 1);
    }
}
