//! Group commit: calls for one slot that come while others are in flight wait for one of these, and then go together, as
//! members of one call of a script that runs them in turn. See `docs/design/group-commit.md`.

mod message;
mod queue;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use redis::Cmd;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::call::Request;
use super::cluster::slot_of;
use super::connection::Connection;
use super::error::{StoreError, Unavailable};
use super::metrics::ExtraRoundTrip;
use super::node::Lane;
use super::open::SentReply;
use super::script::Script;
use message::{Answer, encode, read};
pub use queue::BatchLimits;
use queue::{Queue, Waiting};

/// The calls of one slot that one script runs together. Scripts of a batch have the same flags, which hold for all its members.
type Place = (u16, &'static str);

/// The calls that are in flight or wait, by slot and script.
pub(crate) struct Batches {
    limits: BatchLimits,
    queues: Mutex<HashMap<Place, Queue<Member>>>,
}

/// A call that waits to become a member of a batch.
struct Member {
    script: &'static Script,
    key: String,
    command: Cmd,
    mark: Option<String>,
    deadline: Instant,
    since: Instant,
    answer: oneshot::Sender<Answer>,
}

impl Waiting for Member {
    fn bytes(&self) -> usize {
        message::parts(&self.command).map(<[u8]>::len).sum()
    }

    fn is_given_up(&self) -> bool {
        self.answer.is_closed()
    }
}

/// What a call does that has just come.
enum Entered {
    /// It is sent at once, by its own script.
    Alone,
    /// It waits, with a place in flight that is free for it.
    First((u64, oneshot::Receiver<Answer>)),
    /// It waits for a place.
    Waits((u64, oneshot::Receiver<Answer>)),
}

/// A place in flight. When it is dropped, its call has ended or nobody waits for it any more, and the next batch goes.
struct Turn {
    connection: Arc<Connection>,
    batch: &'static Script,
    place: Place,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Batches { limits, queues } = &self.connection.batches;
        let members = {
            let mut queues = queues.lock();
            let Some(queue) = queues.get_mut(&self.place) else {
                return;
            };
            let members = queue.next(limits);
            if queue.is_idle() {
                queues.remove(&self.place);
            }
            members
        };
        // Without a runtime the process ends, and nobody waits.
        if let (false, Ok(runtime)) = (members.is_empty(), Handle::try_current()) {
            let turn = Self {
                connection: Arc::clone(&self.connection),
                batch: self.batch,
                place: self.place,
            };
            runtime.spawn(turn.send_together(members));
        }
    }
}

impl Batches {
    pub(crate) fn new(limits: BatchLimits) -> Self {
        Self {
            limits,
            queues: Mutex::default(),
        }
    }

    /// Takes a place in flight for a call, or makes it a waiting member.
    fn enter(
        &self,
        place: Place,
        member: impl FnOnce(oneshot::Sender<Answer>) -> Member,
    ) -> Entered {
        let mut queues = self.queues.lock();
        let queue = queues.entry(place).or_default();
        let is_free = queue.begin(&self.limits);
        if is_free && !self.limits.lone {
            return Entered::Alone;
        }
        let (answer, answered) = oneshot::channel();
        let waits = (queue.wait(member(answer)), answered);
        match is_free {
            true => Entered::First(waits),
            false => Entered::Waits(waits),
        }
    }
}

impl Connection {
    /// Sends a call at once if its slot has a place in flight free, otherwise as a member of the next batch.
    pub(crate) async fn send_or_wait(
        self: &Arc<Self>,
        request: Request<'_>,
        (script, batch): (&'static Script, &'static Script),
        deadline: Instant,
    ) -> Result<SentReply, StoreError> {
        let place = (slot_of(request.key.as_bytes()), batch.path());
        let turn = || Turn {
            connection: Arc::clone(self),
            batch,
            place,
        };
        let member = |answer| Member {
            script,
            key: request.key.to_owned(),
            command: request.command.clone(),
            mark: request.mark.map(ToOwned::to_owned),
            deadline,
            since: Instant::now(),
            answer,
        };
        let (number, answer) = match self.batches.enter(place, member) {
            Entered::Alone => {
                let _turn = turn();
                return self.send(request, Lane::Request, deadline).await;
            }
            Entered::First(waits) => {
                drop(turn());
                waits
            }
            Entered::Waits(waits) => waits,
        };
        match timeout_at(deadline, answer).await {
            Ok(Ok(Answer::Sent(reply))) => reply,
            Ok(Ok(Answer::Again)) => {
                let metrics = &self.dialer.metrics;
                metrics.extra_round_trip(ExtraRoundTrip::Again);
                self.send(request, Lane::Request, deadline).await
            }
            Ok(Err(_)) | Err(_) => Err(self.give_up(place, number).into()),
        }
    }

    /// Why a call got no answer before its deadline.
    fn give_up(&self, place: Place, number: u64) -> Unavailable {
        let mut queues = self.batches.queues.lock();
        let queue = queues.get_mut(&place);
        match queue.and_then(|queue| queue.leave(number)) {
            Some(_) => Unavailable::TimeIsUp,
            None => Unavailable::NoReply {
                node: "Redis".to_owned(),
            },
        }
    }
}

impl Turn {
    /// Sends the members and gives each its answer.
    async fn send_together(self, members: Vec<Member>) {
        let metrics = &self.connection.dialer.metrics;
        metrics.batch_members.observe(members.len() as f64);
        for member in &members {
            let queued = member.since.elapsed().as_secs_f64();
            metrics.batch_queued.observe(queued);
        }
        let alone = members.len() == 1 && !self.connection.batches.limits.lone;
        let encoded;
        let (command, script) = if alone {
            (&members[0].command, members[0].script)
        } else {
            encoded = encode(self.batch, &members);
            (&encoded, self.batch)
        };
        let request = Request {
            key: &members[0].key,
            command,
            script: Some(script),
            mark: members[0].mark.as_deref(),
        };
        // A member whose deadline comes earlier stops waiting by itself.
        let deadline = members.iter().map(|member| member.deadline).max();
        let deadline = deadline.unwrap_or_else(Instant::now);
        let reply = self.connection.send(request, Lane::Request, deadline).await;
        let answers = if alone {
            vec![Answer::Sent(reply)]
        } else {
            read(self.batch, reply, members.len())
        };
        for (member, answer) in members.into_iter().zip(answers) {
            let has_failed = matches!(&answer, Answer::Sent(Err(StoreError::Script { .. })));
            if has_failed {
                metrics.batch_members_failed.inc();
            }
            // Nobody waits for a call whose client hung up.
            let _ = member.answer.send(answer);
        }
    }
}
