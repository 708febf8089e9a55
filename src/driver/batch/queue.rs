//! The calls of one slot: those in flight, and those that wait until one of them has its reply. No I/O; the caller locks it.

use std::collections::VecDeque;

/// How many calls go together, and how many are in flight.
#[derive(Debug, Clone, Copy)]
pub struct BatchLimits {
    /// Calls in flight for one slot from this process; more would only wait inside Redis, each alone.
    pub in_flight: usize,
    /// Members of a batch.
    pub members: usize,
    /// Bytes of the keys and arguments of a batch, except where one member alone has more.
    pub bytes: usize,
    /// Whether a call that finds a place free also goes as a batch, of one. For tests.
    pub lone: bool,
}

impl Default for BatchLimits {
    fn default() -> Self {
        Self {
            in_flight: 2,
            members: 32,
            bytes: 256 << 10,
            lone: false,
        }
    }
}

/// What waits in a queue.
pub(crate) trait Waiting {
    /// Bytes of its keys and arguments.
    fn bytes(&self) -> usize;

    /// Whether nobody waits for its reply any more.
    fn is_given_up(&self) -> bool;
}

/// The calls of one slot.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    in_flight: usize,
    next_number: u64,
    waiting: VecDeque<(u64, T)>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            in_flight: 0,
            next_number: 0,
            waiting: VecDeque::new(),
        }
    }
}

impl<T: Waiting> Queue<T> {
    /// Takes a place in flight, if one is free; the caller gives it back with [`Self::next`].
    pub(crate) fn begin(&mut self, limits: &BatchLimits) -> bool {
        let is_free = self.in_flight < limits.in_flight.max(1);
        self.in_flight += usize::from(is_free);
        is_free
    }

    /// Waits for a place; the number is for [`Self::leave`].
    pub(crate) fn wait(&mut self, call: T) -> u64 {
        self.next_number += 1;
        self.waiting.push_back((self.next_number, call));
        self.next_number
    }

    /// Removes a call that still waits; none if it was sent.
    pub(crate) fn leave(&mut self, number: u64) -> Option<T> {
        let at = self
            .waiting
            .binary_search_by_key(&number, |(number, _)| *number);
        self.waiting.remove(at.ok()?).map(|(_, call)| call)
    }

    /// The calls that go next in the place of a call that has its reply, oldest first. None: the place is free again.
    pub(crate) fn next(&mut self, limits: &BatchLimits) -> Vec<T> {
        let mut batch = Vec::new();
        let mut bytes = 0;
        while let Some((_, call)) = self.waiting.front() {
            let is_given_up = call.is_given_up();
            if !is_given_up && !batch.is_empty() {
                bytes += call.bytes();
                if batch.len() >= limits.members || bytes > limits.bytes {
                    break;
                }
            } else if !is_given_up {
                bytes = call.bytes();
            }
            let call = self.waiting.pop_front();
            batch.extend(call.filter(|_| !is_given_up).map(|(_, call)| call));
        }
        if batch.is_empty() {
            self.in_flight -= 1;
        }
        batch
    }

    /// Whether nothing waits or is in flight.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.waiting.is_empty()
    }
}
