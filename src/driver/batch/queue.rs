//! The calls of one slot: those in flight, and those that wait until one of them has its reply. No I/O; the caller locks it.

use std::collections::VecDeque;

/// How many calls go together, and how many are in flight.
#[derive(Debug, Clone, Copy)]
pub struct BatchLimits {
    /// Calls in flight for one slot from this process; what comes meanwhile waits to go together.
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
            in_flight: 4,
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
    waiting: VecDeque<(u64, T)>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            in_flight: 0,
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

    /// Waits for a place. The number, for [`Self::leave`], is higher than all before it.
    pub(crate) fn wait(&mut self, number: u64, call: T) {
        self.waiting.push_back((number, call));
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
        while let Some((number, call)) = self.waiting.pop_front() {
            if call.is_given_up() {
                continue;
            }
            bytes += call.bytes();
            let fits = batch.len() < limits.members && bytes <= limits.bytes;
            if !fits && !batch.is_empty() {
                self.waiting.push_front((number, call));
                break;
            }
            batch.push(call);
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;

    /// A call that knows its caller.
    struct Numbered {
        caller: usize,
        bytes: usize,
        is_given_up: Rc<Cell<bool>>,
    }

    impl Waiting for Numbered {
        fn bytes(&self) -> usize {
            self.bytes
        }

        fn is_given_up(&self) -> bool {
            self.is_given_up.get()
        }
    }

    fn numbered(caller: usize, bytes: usize) -> Numbered {
        Numbered {
            caller,
            bytes,
            is_given_up: Rc::default(),
        }
    }

    /// What has become of a caller.
    #[derive(Debug, Clone, PartialEq)]
    enum Caller {
        Absent,
        Waits(u64),
        HungUp,
        Left,
        Sent,
    }

    /// What can happen next.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Event {
        Arrives(usize),
        /// Its deadline passes while it waits.
        Leaves(usize),
        /// Its client hangs up while it waits; nobody tells the queue.
        HangsUp(usize),
        /// A call in flight gets its reply, or is dropped before.
        Ends,
    }

    const CALLERS: usize = 5;

    /// A queue and its callers after some events.
    struct History {
        queue: Queue<Numbered>,
        limits: BatchLimits,
        callers: Vec<Caller>,
        given_up: Vec<Rc<Cell<bool>>>,
        in_flight: usize,
        sent: Vec<usize>,
    }

    impl History {
        fn new(limits: BatchLimits) -> Self {
            Self {
                queue: Queue::default(),
                limits,
                callers: vec![Caller::Absent; CALLERS],
                given_up: (0..CALLERS).map(|_| Rc::default()).collect(),
                in_flight: 0,
                sent: Vec::new(),
            }
        }

        fn possible(&self) -> Vec<Event> {
            let mut events = Vec::new();
            // Callers differ in nothing but their order.
            let next = self.callers.iter().position(|it| *it == Caller::Absent);
            events.extend(next.map(Event::Arrives));
            for (caller, state) in self.callers.iter().enumerate() {
                if matches!(state, Caller::Waits(_)) {
                    events.extend([Event::Leaves(caller), Event::HangsUp(caller)]);
                }
            }
            events.extend((self.in_flight > 0).then_some(Event::Ends));
            events
        }

        fn happen(&mut self, event: Event) {
            match event {
                Event::Arrives(caller) => {
                    if self.queue.begin(&self.limits) {
                        self.in_flight += 1;
                        self.send(caller);
                        return;
                    }
                    let is_given_up = Rc::clone(&self.given_up[caller]);
                    let number = caller as u64;
                    let call = Numbered {
                        caller,
                        bytes: 1,
                        is_given_up,
                    };
                    self.queue.wait(number, call);
                    self.callers[caller] = Caller::Waits(number);
                }
                Event::Leaves(caller) => {
                    let Caller::Waits(number) = self.callers[caller] else {
                        unreachable!("only those that wait leave");
                    };
                    let left = self.queue.leave(number).map(|call| call.caller);
                    assert_eq!(left, Some(caller));
                    self.callers[caller] = Caller::Left;
                }
                Event::HangsUp(caller) => {
                    self.given_up[caller].set(true);
                    self.callers[caller] = Caller::HungUp;
                }
                Event::Ends => {
                    let batch = self.queue.next(&self.limits);
                    assert!(batch.len() <= self.limits.members);
                    self.in_flight -= usize::from(batch.is_empty());
                    batch.iter().for_each(|call| self.send(call.caller));
                }
            }
        }

        fn send(&mut self, caller: usize) {
            let state = std::mem::replace(&mut self.callers[caller], Caller::Sent);
            assert!(
                matches!(state, Caller::Absent | Caller::Waits(_)),
                "sent although {state:?}"
            );
            self.sent.push(caller);
        }

        fn check(&self) {
            assert!(self.in_flight <= self.limits.in_flight);
            let waits = |it: &Caller| matches!(it, Caller::Waits(_));
            let is_full = self.in_flight == self.limits.in_flight;
            assert!(
                is_full || !self.callers.iter().any(waits),
                "one waits beside a free place"
            );
            assert!(self.sent.is_sorted(), "one was overtaken: {:?}", self.sent);
            let is_over = self.in_flight == 0;
            assert!(!is_over || self.queue.is_idle(), "a queue stays");
        }
    }

    /// Every order in which five calls come, leave, hang up and get their replies.
    #[test]
    fn nothing_is_lost_sent_twice_or_left_waiting_in_any_order_of_events() {
        for (in_flight, members) in [(1, 1), (1, 2), (2, 2), (2, 32)] {
            let limits = BatchLimits {
                in_flight,
                members,
                ..BatchLimits::default()
            };
            let mut histories: Vec<Vec<Event>> = vec![Vec::new()];
            let mut ended = 0;
            while let Some(history) = histories.pop() {
                let mut after = History::new(limits);
                for event in &history {
                    after.happen(*event);
                }
                after.check();
                let events = after.possible();
                if events.is_empty() {
                    ended += 1;
                    let lost = |it: &Caller| matches!(it, Caller::Absent | Caller::Waits(_));
                    assert!(!after.callers.iter().any(lost), "{history:?}");
                }
                let further = events.into_iter().map(|event| {
                    let mut further = history.clone();
                    further.push(event);
                    further
                });
                histories.extend(further);
            }
            assert!(ended > 100, "{ended} histories");
        }
    }

    #[test]
    fn a_batch_has_as_many_members_and_bytes_as_it_may() {
        let limits = BatchLimits {
            in_flight: 1,
            members: 3,
            bytes: 10,
            ..BatchLimits::default()
        };
        for (bytes, expected) in [
            (vec![1, 1, 1, 1], 3),
            (vec![5, 5, 1], 2),
            (vec![5, 6], 1),
            // One that is too large goes by itself.
            (vec![11, 1], 1),
        ] {
            let mut queue = Queue::default();
            assert!(queue.begin(&limits));
            for (caller, bytes) in bytes.iter().enumerate() {
                queue.wait(caller as u64, numbered(caller, *bytes));
            }
            let batch = queue.next(&limits);
            let callers: Vec<_> = batch.iter().map(|call| call.caller).collect();
            assert_eq!(callers, (0..expected).collect::<Vec<_>>(), "{bytes:?}");
            assert!(!queue.is_idle());
        }
    }
}
