//! Slows down who guesses admin keys: after some wrong ones from an address, its next attempts are refused unseen for a while.
//!
//! A right key that is refused with the wrong ones would let anybody lock out the operators behind the same address. So an
//! address from which an admin key was accepted lately is not kept waiting: its keys are compared, and only wrong ones get the
//! refusal. From elsewhere a right key waits with the others, for [`PAUSE_MAX`] at most after the last wrong one.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::bounded::BoundedTable;
use super::client_address::network_of;

/// Addresses whose failures are counted, about 100 bytes each. Those beyond are not delayed: with that many addresses, a
/// pause that they share would keep out operators, and guesses are hopeless anyway, because keys are long.
const FAILING_MAX: usize = 4_096;
/// Addresses from which a key was accepted; only who has a key can add one.
const OPERATORS_MAX: usize = 1_024;

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// After this long without a wrong key, an address has a clean slate.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);
/// How long an address counts as an operator's after its last right key.
const OPERATOR_FOR: Duration = Duration::from_secs(900);

/// Counts wrong admin keys by client address.
#[derive(Debug)]
pub struct AdminKeyBackoff {
    /// Wrong keys before the first pause.
    pub(super) failures_max: u32,
    addresses: Mutex<Addresses>,
}

#[derive(Debug)]
struct Addresses {
    failing: BoundedTable<IpAddr, Failing>,
    operators: BoundedTable<IpAddr, Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Failing {
    count: u32,
    last: Instant,
    until: Instant,
}

/// An attempt during a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paused {
    /// How long the pause still is.
    pub wait: Duration,
    /// Wrong keys so far.
    pub failures: u32,
    /// Whether a right key is accepted all the same.
    pub is_operator: bool,
}

impl AdminKeyBackoff {
    /// Pauses start after this many wrong keys.
    pub fn new(failures_max: u32) -> Self {
        Self {
            failures_max,
            addresses: Mutex::new(Addresses {
                failing: BoundedTable::new(FAILING_MAX),
                operators: BoundedTable::new(OPERATORS_MAX),
            }),
        }
    }

    /// Whether attempts from an address have to wait.
    pub fn pause(&self, address: IpAddr, now: Instant) -> Option<Paused> {
        let (address, addresses) = (network_of(address), self.addresses.lock());
        let failing = addresses.failing.get(&address)?;
        let wait = failing.until.saturating_duration_since(now);
        let accepted = addresses.operators.get(&address);
        (!wait.is_zero()).then(|| Paused {
            wait,
            failures: failing.count,
            is_operator: accepted.is_some_and(|at| now.duration_since(*at) < OPERATOR_FOR),
        })
    }

    /// A key was right. It does not excuse the wrong ones: they may be of somebody else.
    pub fn accepted(&self, address: IpAddr, now: Instant) {
        let (address, mut addresses) = (network_of(address), self.addresses.lock());
        let operators = &mut addresses.operators;
        let remembered = |at: &Instant| now.duration_since(*at) < OPERATOR_FOR;
        if let Some(accepted) = operators.get_or_insert(&address, now, now, remembered) {
            *accepted = now;
        }
    }

    /// A key was compared and wrong.
    pub fn failed(&self, address: IpAddr, now: Instant) {
        let (address, mut addresses) = (network_of(address), self.addresses.lock());
        let clean = Failing {
            count: 0,
            last: now,
            until: now,
        };
        let remembered = |failing: &Failing| now.duration_since(failing.last) < FORGOTTEN_AFTER;
        let failing = &mut addresses.failing;
        let Some(failing) = failing.get_or_insert(&address, clean, now, remembered) else {
            return;
        };
        if !remembered(failing) {
            *failing = clean;
        }
        failing.count = failing.count.saturating_add(1);
        failing.last = now;
        if let Some(beyond) = failing.count.checked_sub(self.failures_max) {
            let pause = Duration::from_secs(1 << beyond.min(8));
            failing.until = now + pause.min(PAUSE_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(number: u32) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number))
    }

    #[test]
    fn pauses_grow_to_a_bound_and_end_with_a_quiet_minute() {
        let (backoff, mut now) = (AdminKeyBackoff::new(3), Instant::now());
        let (guesser, other) = (address(1), address(2));
        let mut waits = Vec::new();
        for _ in 0..7 {
            backoff.failed(guesser, now);
            let wait = backoff
                .pause(guesser, now)
                .map_or(Duration::ZERO, |paused| paused.wait);
            waits.push(wait.as_secs());
            now += wait;
            assert_eq!(backoff.pause(guesser, now), None, "the pause is over");
            assert_eq!(backoff.pause(other, now), None);
        }
        assert_eq!(waits, [0, 0, 1, 2, 4, 5, 5]);
        backoff.failed(guesser, now + FORGOTTEN_AFTER);
        assert_eq!(backoff.pause(guesser, now + FORGOTTEN_AFTER), None);
    }

    #[test]
    fn a_recent_valid_key_is_not_delayed_by_its_neighbours() {
        let (backoff, now) = (AdminKeyBackoff::new(1), Instant::now());
        let is_operator = |now| backoff.pause(address(1), now).expect("a pause").is_operator;
        backoff.failed(address(1), now);
        assert!(!is_operator(now));
        backoff.accepted(address(1), now);
        assert!(is_operator(now));
        let later = now + OPERATOR_FOR;
        backoff.failed(address(1), later);
        assert!(!is_operator(later));
    }

    #[test]
    fn memory_is_bounded_and_clients_beyond_it_are_not_delayed() {
        let (backoff, now) = (AdminKeyBackoff::new(1), Instant::now());
        for number in 0..10_000 {
            backoff.failed(address(number), now);
            backoff.accepted(address(number), now);
        }
        let addresses = backoff.addresses.lock();
        assert_eq!(addresses.failing.len(), FAILING_MAX);
        assert_eq!(addresses.operators.len(), OPERATORS_MAX);
        drop(addresses);
        assert!(backoff.pause(address(0), now).is_some());
        assert_eq!(backoff.pause(address(9_999), now), None);
        let later = now + FORGOTTEN_AFTER;
        backoff.failed(address(20_000), later);
        assert_eq!(backoff.addresses.lock().failing.len(), 1);
    }
}
