//! Slows down who guesses keys: after some wrong ones from an address, the response to each further one is delayed or, for an admin
//! key, a refusal with the time to wait. A right key is always compared and served at once: whoever shares the address of a guesser
//! could otherwise be locked out.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::client_address::network_of;
use crate::domain::api_key::secret::KeyId;
use crate::domain::bounded::BoundedTable;

/// Guessers that are counted, about 150 bytes each. For more of them, those with the fewest wrong keys are forgotten.
const GUESSERS_MAX: usize = 16_384;

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// After this long without a wrong key, an address has a clean slate.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// A client address, and the API key whose secret is guessed there; `None` for admin keys, and for API keys that do not exist.
pub type Guesser = (IpAddr, Option<KeyId>);

/// Counts wrong keys.
#[derive(Debug)]
pub struct Backoff {
    /// Wrong keys before the first pause.
    pub(super) failures_max: u32,
    guessers: Mutex<BoundedTable<Guesser, Failing>>,
}

#[derive(Debug, Clone, Copy)]
struct Failing {
    count: u32,
    last: Instant,
    until: Instant,
}

/// A wrong key during a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paused {
    /// How long the pause still is.
    pub wait: Duration,
    /// Wrong keys so far.
    pub failures: u32,
}

impl Backoff {
    /// Pauses start after this many wrong keys.
    pub fn new(failures_max: u32) -> Self {
        Self {
            failures_max,
            guessers: Mutex::new(BoundedTable::new(GUESSERS_MAX)),
        }
    }

    /// A key was compared and wrong. Counts it, unless the one before it began a pause, which it returns.
    pub fn failed(&self, (address, key_id): Guesser, now: Instant) -> Option<Paused> {
        let clean = Failing {
            count: 0,
            last: now,
            until: now,
        };
        let mut guessers = self.guessers.lock();
        let remembered = |failing: &Failing| now.duration_since(failing.last) < FORGOTTEN_AFTER;
        let weight = |failing: &Failing| match remembered(failing) {
            true => failing.count,
            false => 0,
        };
        let failing = guessers.get_or_insert(&(network_of(address), key_id), clean, weight);
        if !remembered(failing) {
            *failing = clean;
        }
        let wait = failing.until.saturating_duration_since(now);
        if !wait.is_zero() {
            return Some(Paused {
                wait,
                failures: failing.count,
            });
        }
        failing.count = failing.count.saturating_add(1);
        failing.last = now;
        if let Some(beyond) = failing.count.checked_sub(self.failures_max) {
            let pause = Duration::from_secs(1 << beyond.min(8));
            failing.until = now + pause.min(PAUSE_MAX);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    fn address(number: u32) -> Guesser {
        (IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number)), None)
    }

    #[test]
    fn pauses_grow_to_a_bound_and_end_with_a_quiet_minute() {
        let (backoff, mut now) = (Backoff::new(3), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..7 {
            assert_eq!(backoff.failed(address(1), now), None, "the pause is over");
            let wait = match backoff.failed(address(1), now) {
                Some(paused) => paused.wait,
                // Without a pause, the second one counts too.
                None => Duration::ZERO,
            };
            waits.push(wait.as_secs());
            now += wait;
            assert_eq!(
                backoff.failed(address(1_000 + waits.len() as u32), now),
                None
            );
        }
        assert_eq!(waits, [0, 1, 2, 4, 5, 5, 5]);
        let later = now + FORGOTTEN_AFTER;
        assert_eq!(backoff.failed(address(1), later), None);
        assert_eq!(backoff.failed(address(1), later), None);
    }

    #[test]
    fn strangers_do_not_share_a_count_however_many_they_are() {
        let (backoff, now) = (Backoff::new(2), Instant::now());
        for _ in 0..3 {
            backoff.failed(address(1), now);
        }
        for number in 2..100_000 {
            assert_eq!(backoff.failed(address(number), now), None, "{number}");
        }
        let paused = backoff.failed(address(1), now);
        assert!(paused.is_some(), "the guesser is still known");
        let host = |host| {
            (
                IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, host, 0, 0, 0, 1)),
                None,
            )
        };
        backoff.failed(host(1), now);
        backoff.failed(host(2), now);
        assert!(backoff.failed(host(3), now).is_some(), "of the same /48");
        let key_id = KeyId::parse("key_000_abcdefghij12");
        assert_eq!(
            backoff.failed((address(1).0, key_id), now),
            None,
            "its own count"
        );
    }
}
