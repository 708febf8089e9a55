//! Every way to call Redis: scripts with [`Store::run`] and [`Store::run_each`], encoded calls and plain commands with
//! [`Store::send`], [`Store::send_all`] and [`Store::send_each`], and a command for every node with [`Store::send_to_nodes`].
//!
//! Each call counts against the request's deadline, and first reads the deployment's record if it is not known yet.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::Instant;
use tracing::warn;

use super::deadline::note_replay;
use super::runtime::batch;
use super::signature::{Refused, ScriptCall};
use super::{Day, ExtraRoundTrip, Lane, ScriptError, Store, StoreError, Unavailable};
use crate::driver::call::Request;
use crate::driver::node::Node;
use crate::driver::open::SentReply;
use crate::spans::{self, ScriptSpan};

/// How often a call is repeated with another day. Once may not do around midnight: the day can end between two calls.
const DAY_REPEATS: usize = 3;

/// How often requests of a pipeline are sent: again for a script that the node did not know, and for a slot that is moving.
const ROUNDS: usize = 3;

/// What happens to many commands when the nodes of some are out of reach or full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// They are retried until the deadline, and then all fail: a list must not miss rows silently.
    Fail,
    /// They alone fail, without a retry, unless no node replies: work over many partitions that is repeated anyway. A key of
    /// another type is counted and logged, and its reply is `Nil`.
    Skip,
}

/// The reply of each node.
pub(super) type NodeReplies = Vec<(Arc<Node>, Result<Value, StoreError>)>;

/// The replies of all nodes.
///
/// # Errors
/// That of the first one that failed.
pub(super) fn of_all_nodes(replies: NodeReplies) -> Result<Vec<Value>, StoreError> {
    replies.into_iter().map(|(_, reply)| reply).collect()
}

/// The replies of those that replied, with their addresses.
///
/// # Errors
/// When none did.
pub(super) fn of_reachable_nodes(replies: NodeReplies) -> Result<Vec<(String, Value)>, StoreError> {
    let (mut reached, mut failure) = (Vec::new(), None);
    for (node, reply) in replies {
        match reply {
            Ok(reply) => reached.push((node.address.clone(), reply)),
            Err(error) => failure = Some(error),
        }
    }
    match failure {
        Some(error) if reached.is_empty() => Err(error),
        _ => Ok(reached),
    }
}

impl Store {
    /// Runs a script on a lane. One that replies that its clock is in another day is called again, with that day.
    ///
    /// # Errors
    /// [`ScriptError`]: what the script refuses, or why it gave no reply.
    pub(crate) async fn run<C: ScriptCall>(
        &self,
        lane: Lane,
        call: &C,
    ) -> Result<C::Outcome, ScriptError> {
        let (mut day, mut repeats) = (self.today(), 0..DAY_REPEATS);
        loop {
            let encoded = call.on(self.keys(), day);
            let SentReply { value, too_few, .. } = self.exchange(lane, (&encoded).into()).await?;
            match (C::read(value)?, too_few) {
                (Err(Refused::Clock { now_ms }), _) if repeats.next().is_some() => {
                    day = Day::of_ms(now_ms);
                }
                (Ok(_), Some(too_few)) => {
                    self.inner.metrics.too_few_replicas.inc();
                    return Err(StoreError::from(too_few).into());
                }
                (Ok(outcome), None) => return Ok(outcome),
                // A refusal has written nothing that its caller counts on.
                (Err(refused), _) => return Err(ScriptError::Refused(refused, C::SIGNATURE)),
            }
        }
    }

    /// Makes many calls of a script off the request path, in one pipeline per node. The outcomes come in the order of `calls`.
    ///
    /// Only for scripts that may run twice, refuse nothing and have no keys of a day.
    ///
    /// # Errors
    /// [`StoreError`] when the deployment cannot be read.
    pub(super) async fn run_each<C: ScriptCall>(
        &self,
        calls: &[C],
    ) -> Result<Vec<Result<C::Outcome, StoreError>>, StoreError> {
        let today = self.today();
        let encoded = calls.iter().map(|call| call.on(self.keys(), today));
        let encoded: Vec<_> = encoded.collect();
        let requests: Vec<_> = encoded.iter().map(Request::from).collect();
        let replies = self.exchange_each(&requests).await?;
        let lost: Vec<_> = replies.iter().filter_map(|it| it.as_ref().err()).collect();
        if let Some(error) = lost.first() {
            let (script, keys) = (C::SIGNATURE.script.name(), lost.len());
            warn!(script, keys, error = %error, "script `{script}` got no reply for {keys} of many keys: {error}");
        }
        let read = |reply| {
            let refused = |refused: Refused| refused.unexpected(C::SIGNATURE);
            C::read(reply).and_then(|outcome| outcome.map_err(refused))
        };
        Ok(replies
            .into_iter()
            .map(|reply| reply.and_then(read))
            .collect())
    }

    /// Sends one encoded call or plain command to the node that owns its key.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the deadline passes, [`StoreError::Deployment`] when the data belongs to another
    /// deployment, and every error reply: of a plain command as [`StoreError::ErrorReply`].
    pub async fn send<'a>(
        &self,
        lane: Lane,
        request: impl Into<Request<'a>>,
    ) -> Result<Value, StoreError> {
        let sent = self.exchange(lane, request.into()).await?;
        match sent.too_few {
            Some(too_few) => Err(too_few.into()),
            None => Ok(sent.value),
        }
    }

    /// Sends many plain commands off the request path, in one pipeline per node; all must succeed. The replies come in the order
    /// of `commands`, which may run twice.
    ///
    /// # Errors
    /// As for [`Store::send`], for the first command that failed.
    pub async fn send_all(&self, commands: &[(String, Cmd)]) -> Result<Vec<Value>, StoreError> {
        let replies = self.send_each(commands, OnFailure::Fail).await?;
        replies.into_iter().collect()
    }

    /// The same where some may fail: [`StoreError::ErrorReply`] takes the place of a reply, so that one key of another type does not
    /// fail the others, and after [`OnFailure::Skip`] also what a node out of reach or full caused.
    ///
    /// # Errors
    /// As for [`Store::send`], except [`StoreError::ErrorReply`]; after [`OnFailure::Skip`] when no node replies.
    pub async fn send_each(
        &self,
        commands: &[(String, Cmd)],
        on_failure: OnFailure,
    ) -> Result<Vec<Result<Value, StoreError>>, StoreError> {
        let requests: Vec<_> = commands.iter().map(Request::from).collect();
        let mut replies = self.exchange_each(&requests).await?;
        let mut is_any = false;
        for (reply, request) in replies.iter_mut().zip(&requests) {
            match (&*reply, on_failure) {
                (Err(StoreError::ErrorReply { code, detail }), OnFailure::Skip) => {
                    self.note_unreadable(request.key, &format!("{code} {detail}"));
                    *reply = Ok(Value::Nil);
                }
                (Err(StoreError::Unavailable(_)), OnFailure::Fail) => {
                    *reply = match self.send(Lane::Background, *request).await {
                        Err(refused @ StoreError::ErrorReply { .. }) => Err(refused),
                        again => Ok(again?),
                    };
                }
                (Ok(_) | Err(StoreError::ErrorReply { .. }), _)
                | (Err(StoreError::Unavailable(_) | StoreError::Full), OnFailure::Skip) => {}
                (Err(_), _) => drop(std::mem::replace(reply, Ok(Value::Nil))?),
            }
            is_any |= reply.is_ok();
        }
        if let (Some(first), false, OnFailure::Skip) = (requests.first(), is_any, on_failure) {
            // No node replied: one command alone gives the error.
            replies[0] = Ok(self.send(Lane::Background, *first).await?);
        }
        Ok(replies)
    }

    /// Sends a command to each node that holds data, within `limit` and to all at the same time; the replies come in the order of
    /// the nodes.
    ///
    /// # Errors
    /// [`StoreError`] when the nodes are not known.
    pub(super) async fn send_to_nodes(
        &self,
        lane: Lane,
        command: &Cmd,
        limit: Duration,
    ) -> Result<NodeReplies, StoreError> {
        let deadline = Instant::now() + limit;
        let connection = &self.inner.connection;
        connection.send_to_nodes(lane, command, deadline).await
    }
}

impl Store {
    /// The reply to one request, with what is missing where it should have waited for replicas.
    async fn exchange(
        &self,
        lane: Lane,
        mut request: Request<'_>,
    ) -> Result<SentReply, StoreError> {
        let timed = self.begin_call()?;
        let deadline = timed.deadline;
        self.secret_by(deadline).await?;
        let Some(script) = request.script else {
            return self.inner.connection.send(request, lane, deadline).await;
        };
        let waits = self.inner.options.wait > 0 && lane == Lane::Request && script.writes();
        let mark = waits.then(|| self.keys().replicated_beside(request.key));
        request.mark = mark.as_deref();
        let span = spans::are_exported()
            .then(|| ScriptSpan::begin(script.name()))
            .flatten();
        let connection = &self.inner.connection;
        let reply = match batch::of(script) {
            Some(batch) if lane == Lane::Request => {
                let batches = &self.inner.batches;
                batches.send(request, script, batch, deadline).await
            }
            _ => connection.send(request, lane, deadline).await,
        };
        if let Some(span) = span {
            span.end(reply.as_ref().err().map(ToString::to_string));
        }
        let reply = reply?;
        self.learn_clock(reply.sent_at, &reply.value);
        if is_replayed(&reply.value) {
            note_replay();
        }
        Ok(reply)
    }

    /// Corrects the estimate of Redis's clock by replies that carry it: `clock`, `sweep_first`, `turn_first` and `stale`, after which the
    /// script is called again, and `reserved`, so that the clock monitor sees every reserve.
    fn learn_clock(&self, sent: Instant, reply: &Value) {
        let Value::Array(fields) = reply else { return };
        let [Value::BulkString(word), Value::Int(now_ms), ..] = &fields[..] else {
            return;
        };
        if matches!(
            &word[..],
            b"clock" | b"stale" | b"sweep_first" | b"turn_first" | b"reserved"
        ) {
            self.inner.clock.observe(sent, Instant::now(), *now_ms);
        }
        if word == b"clock" {
            self.inner.metrics.extra_round_trip(ExtraRoundTrip::Clock);
        }
    }

    /// The replies to requests that may be sent twice, sent in pipelines.
    async fn exchange_each(
        &self,
        requests: &[Request<'_>],
    ) -> Result<Vec<Result<Value, StoreError>>, StoreError> {
        self.secret().await?;
        let connection = &self.inner.connection;
        let timed = self.begin_call()?;
        let mut replies = connection.send_each(requests, timed.deadline).await;
        drop(timed);
        for _ in 1..ROUNDS {
            let did_not_run = |index: &usize| {
                matches!(
                    replies[*index],
                    Err(StoreError::Unavailable(Unavailable::NotReady { .. }))
                )
            };
            let mut again: Vec<usize> = (0..requests.len()).filter(did_not_run).collect();
            let Some(first) = again.pop() else { break };
            // One is sent alone, which loads the script or finds the new node of the slot.
            let alone = self.exchange(Lane::Background, requests[first]).await;
            replies[first] = alone.map(|sent| sent.value);
            let timed = self.begin_call()?;
            let others: Vec<_> = again.iter().map(|index| requests[*index]).collect();
            let others = connection.send_each(&others, timed.deadline).await;
            for (index, reply) in again.into_iter().zip(others) {
                replies[index] = reply;
            }
        }
        Ok(replies)
    }
}

/// Whether a script replies with what it stored for the same request.
fn is_replayed(reply: &Value) -> bool {
    let Value::Array(fields) = reply else {
        return false;
    };
    matches!(fields.first(), Some(Value::BulkString(word)) if word == b"replayed")
}
