//! Writes whose replies wait until replicas have them, on a connection of their own.
//!
//! `WAIT` blocks its connection, so whatever comes meanwhile is sent together as the next group, with one `WAIT` behind it.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use redis::{Cmd, Pipeline, Value};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use super::error::Unavailable;
use super::link::{Dialer, Link, Replicas};
use super::open::{OpenConnection, SentReply, Source};

/// Writes of one group; further ones go with the next.
const GROUP_MAX: usize = 256;

/// How long the key lasts whose write moves the offset that `WAIT` waits for.
const MARK_MS: u64 = 60_000;

/// One connection for such writes.
pub(crate) struct ReplicatedLink {
    link: Arc<Link>,
    dialer: Dialer,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Write>,
    /// Whether a task sends what is in the queue.
    is_served: bool,
}

/// A write that waits for its group.
struct Write {
    command: Cmd,
    asking: bool,
    mark: String,
    deadline: Instant,
    reply: oneshot::Sender<Result<SentReply, Unavailable>>,
}

impl ReplicatedLink {
    /// Opens nothing before the first write.
    pub(crate) fn new(link: Arc<Link>, dialer: Dialer) -> Arc<Self> {
        Arc::new(Self {
            link,
            dialer,
            queue: Mutex::default(),
        })
    }

    /// Sends a write with the next group, behind `ASKING` if need be. `mark` is a key in the same slot, see [`Self::pipeline`].
    pub(crate) async fn send(
        self: &Arc<Self>,
        command: &Cmd,
        asking: bool,
        mark: &str,
        deadline: Instant,
    ) -> Result<SentReply, Unavailable> {
        let (reply, replied) = oneshot::channel();
        let write = Write {
            command: command.clone(),
            asking,
            mark: mark.to_owned(),
            deadline,
            reply,
        };
        let is_served = {
            let mut queue = self.queue.lock();
            queue.waiting.push_back(write);
            std::mem::replace(&mut queue.is_served, true)
        };
        if !is_served {
            tokio::spawn(Arc::clone(self).serve());
        }
        match timeout_at(deadline, replied).await {
            Ok(Ok(replied)) => replied,
            // It may have been sent.
            Ok(Err(_)) | Err(_) => Err(Unavailable::NoReply {
                node: self.link.address.clone(),
            }),
        }
    }

    /// Sends group after group until the queue is empty.
    async fn serve(self: Arc<Self>) {
        while let Some(group) = self.next_group() {
            // Nothing is sent for callers that gave up.
            let (group, _): (Vec<_>, Vec<_>) = group
                .into_iter()
                .partition(|write| !write.reply.is_closed());
            match self.exchange(&group).await {
                Ok(replies) => {
                    for (write, replied) in group.into_iter().zip(replies) {
                        let _ = write.reply.send(Ok(replied));
                    }
                }
                Err(error) => {
                    for write in group {
                        let _ = write.reply.send(Err(error.clone()));
                    }
                }
            }
        }
    }

    fn next_group(&self) -> Option<Vec<Write>> {
        let mut queue = self.queue.lock();
        let count = queue.waiting.len().min(GROUP_MAX);
        if count == 0 {
            queue.is_served = false;
            return None;
        }
        Some(queue.waiting.drain(..count).collect())
    }

    /// Sends a group and waits for its replies.
    async fn exchange(&self, group: &[Write]) -> Result<Vec<SentReply>, Unavailable> {
        let Some(deadline) = group.iter().map(|write| write.deadline).max() else {
            return Ok(Vec::new());
        };
        let live = self.link.connect(deadline).await?;
        self.dialer.identity.check()?;
        let open = OpenConnection {
            node: &self.link.address,
            source: Source::Shared(live),
        };
        let sent_at = Instant::now();
        let mut replies = open.send_all(&self.pipeline(group), deadline).await?;
        let reached = match replies.pop() {
            Some(Value::Int(reached)) => reached,
            // A user that may not run `WAIT` learns nothing of replicas.
            _ => 0,
        };
        let wanted = self.dialer.replicas.wanted;
        let too_few = (reached < i64::from(wanted)).then(|| Unavailable::TooFewReplicas {
            node: self.link.address.clone(),
            reached,
            wanted,
        });
        let mut replies = replies.into_iter();
        let reply_to = |write: &Write| {
            if write.asking {
                replies.next();
            }
            SentReply {
                value: replies.next().unwrap_or_default(),
                too_few: too_few.clone(),
                sent_at,
            }
        };
        Ok(group.iter().map(reply_to).collect())
    }

    /// A group's commands, a mark, and `WAIT`. Since Redis 7.2 `WAIT` waits for the last write of its own connection alone. A
    /// replay writes nothing, and its record may have come over another connection, so the mark is written for it.
    fn pipeline(&self, group: &[Write]) -> Pipeline {
        let mut pipeline = Pipeline::with_capacity(group.len() + 2);
        for write in group {
            if write.asking {
                pipeline.cmd("ASKING");
            }
            pipeline.add_command(write.command.clone());
        }
        let mark = group.last().map_or("", |write| &write.mark);
        pipeline.cmd("SET").arg(mark).arg("").arg("PX").arg(MARK_MS);
        let Replicas { wanted, limit } = self.dialer.replicas;
        let limit_ms = limit.as_millis().max(1) as u64;
        pipeline.cmd("WAIT").arg(wanted).arg(limit_ms);
        pipeline
    }
}
