//! Group commit: calls for one slot that come while others are in flight wait for one of these, and then go together, as
//! members of one call of a script that runs each in order. See `docs/design/group-commit.md`.

mod message;
pub(crate) mod queue;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use redis::Cmd;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::call::Request;
use super::cluster::slot_of;
use super::connection::Connection;
use super::error::{StoreError, Unavailable};
use super::metrics::{ExtraRoundTrip, StoreMetrics};
use super::node::Lane;
use super::open::SentReply;
use super::script::Script;
use message::{Outcome, encode, parts, read};
use queue::{BatchLimits, Queue, Waiting};

/// The calls that one script runs together: those for a slot. Members have the same flags, which hold for the whole script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Group {
    slot: u16,
    /// The path of the script.
    batch: &'static str,
}

/// The calls that are in flight or wait.
pub(crate) struct Batches {
    connection: Arc<Connection>,
    metrics: StoreMetrics,
    limits: BatchLimits,
    queues: Mutex<HashMap<Group, Queue<Member>>>,
    /// The number of the last call that waited. It outlives the queues, so that a call that gives up never means another one.
    last_number: AtomicU64,
}

/// A call that waits to go in a batch.
struct Member {
    script: &'static Script,
    key: String,
    command: Cmd,
    mark: Option<String>,
    deadline: Instant,
    since: Instant,
    outcome: oneshot::Sender<Outcome>,
}

impl Waiting for Member {
    fn bytes(&self) -> usize {
        parts(&self.command).map(<[u8]>::len).sum()
    }

    fn is_given_up(&self) -> bool {
        self.outcome.is_closed()
    }
}

/// A waiting call: its number in the queue, and what it will hear.
type Ticket = (u64, oneshot::Receiver<Outcome>);

/// What happens to a call that has just come.
enum Entered {
    /// It is sent at once, by its own script.
    Alone,
    /// It is sent at once, as a batch of one; for tests.
    Lone(Ticket),
    Waits(Ticket),
}

/// A place in flight. When it is dropped, its call has ended or is given up, and the next batch goes.
struct Place {
    batches: Arc<Batches>,
    batch: &'static Script,
    group: Group,
}

impl Drop for Place {
    fn drop(&mut self) {
        let members = self.batches.next(self.group);
        // Without a runtime the process ends, and nobody waits.
        if let (false, Ok(runtime)) = (members.is_empty(), Handle::try_current()) {
            let place = Self {
                batches: Arc::clone(&self.batches),
                batch: self.batch,
                group: self.group,
            };
            runtime.spawn(place.send_together(members));
        }
    }
}

impl Batches {
    pub(crate) fn new(
        connection: Arc<Connection>,
        metrics: StoreMetrics,
        limits: BatchLimits,
    ) -> Arc<Self> {
        Arc::new(Self {
            connection,
            metrics,
            limits,
            queues: Mutex::default(),
            last_number: AtomicU64::new(0),
        })
    }

    /// Sends a call of `script` at once if its slot has a place in flight free, otherwise in the next call of `batch`.
    pub(crate) async fn send(
        self: &Arc<Self>,
        request: Request<'_>,
        script: &'static Script,
        batch: &'static Script,
        deadline: Instant,
    ) -> Result<SentReply, StoreError> {
        let group = Group {
            slot: slot_of(request.key.as_bytes()),
            batch: batch.path(),
        };
        let place = || Place {
            batches: Arc::clone(self),
            batch,
            group,
        };
        let member = |outcome| Member {
            script,
            key: request.key.to_owned(),
            command: request.command.clone(),
            mark: request.mark.map(ToOwned::to_owned),
            deadline,
            since: Instant::now(),
            outcome,
        };
        let (number, outcome) = match self.enter(group, member) {
            Entered::Alone => {
                let _place = place();
                return self.send_alone(request, deadline).await;
            }
            Entered::Lone(ticket) => {
                drop(place());
                ticket
            }
            Entered::Waits(ticket) => ticket,
        };
        match timeout_at(deadline, outcome).await {
            Ok(Ok(Outcome::Sent(reply))) => reply,
            Ok(Ok(Outcome::Again)) => {
                self.metrics.extra_round_trip(ExtraRoundTrip::Again);
                self.send_alone(request, deadline).await
            }
            Ok(Err(_)) | Err(_) => Err(self.give_up(group, number).into()),
        }
    }

    async fn send_alone(
        &self,
        request: Request<'_>,
        deadline: Instant,
    ) -> Result<SentReply, StoreError> {
        let sent = self.connection.send(request, Lane::Request, deadline);
        sent.await
    }

    /// Takes a place in flight for a call, or lets it wait for one.
    fn enter(
        &self,
        group: Group,
        member: impl FnOnce(oneshot::Sender<Outcome>) -> Member,
    ) -> Entered {
        let mut queues = self.queues.lock();
        let queue = queues.entry(group).or_default();
        let is_free = queue.begin(&self.limits);
        if is_free && !self.limits.lone {
            return Entered::Alone;
        }
        let (sender, receiver) = oneshot::channel();
        // Under the lock, so that numbers of a queue rise.
        let number = self.last_number.fetch_add(1, Ordering::Relaxed) + 1;
        queue.wait(number, member(sender));
        let ticket = (number, receiver);
        match is_free {
            true => Entered::Lone(ticket),
            false => Entered::Waits(ticket),
        }
    }

    /// The members that go next in a place in flight; none if it is free now.
    fn next(&self, group: Group) -> Vec<Member> {
        let mut queues = self.queues.lock();
        let Some(queue) = queues.get_mut(&group) else {
            return Vec::new();
        };
        let members = queue.next(&self.limits);
        if queue.is_idle() {
            queues.remove(&group);
        }
        members
    }

    /// Why a call heard nothing before its deadline.
    fn give_up(&self, group: Group, number: u64) -> Unavailable {
        let mut queues = self.queues.lock();
        let waiting = queues.get_mut(&group).and_then(|it| it.leave(number));
        match waiting {
            Some(_) => Unavailable::TimeIsUp,
            None => Unavailable::NoReply {
                node: "Redis".to_owned(),
            },
        }
    }
}

impl Place {
    /// Sends the members, and tells each its outcome.
    async fn send_together(self, members: Vec<Member>) {
        let Batches {
            metrics, limits, ..
        } = &*self.batches;
        metrics.batch_members.observe(members.len() as f64);
        for member in &members {
            let queued = member.since.elapsed().as_secs_f64();
            metrics.batch_queued.observe(queued);
        }
        let together = members.len() > 1 || limits.lone;
        let encoded = together.then(|| encode(self.batch, &members));
        let first = &members[0];
        let request = Request {
            key: &first.key,
            command: encoded.as_ref().unwrap_or(&first.command),
            script: Some(if together { self.batch } else { first.script }),
            mark: first.mark.as_deref(),
        };
        // A member whose deadline comes earlier stops waiting by itself.
        let deadlines = members.iter().map(|member| member.deadline);
        let deadline = deadlines.fold(first.deadline, Instant::max);
        let reply = self.batches.send_alone(request, deadline).await;
        let has_run = together && reply.is_ok();
        let outcomes = match together {
            true => read(self.batch, reply, members.len()),
            false => vec![Outcome::Sent(reply)],
        };
        for (member, outcome) in members.into_iter().zip(outcomes) {
            if has_run && matches!(&outcome, Outcome::Sent(Err(_))) {
                metrics.batch_members_failed.inc();
            }
            // Nobody waits for a call whose client hung up.
            let _ = member.outcome.send(outcome);
        }
    }
}
