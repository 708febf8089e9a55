//! The call of a batch, from the calls of its members; and their replies, from its reply.

use redis::{Arg, Cmd, Value};

use super::Member;
use crate::driver::error::{StoreError, Unavailable};
use crate::driver::open::SentReply;
use crate::driver::script::Script;

/// What a member of a batch hears.
pub(super) enum Outcome {
    /// It was sent.
    Sent(Result<SentReply, StoreError>),
    /// It certainly did not run; it is sent alone.
    Again,
}

/// How many parts of an `EVALSHA` precede its keys.
const HEAD: usize = 3;

/// The parts of a command.
pub(super) fn parts(command: &Cmd) -> impl Iterator<Item = &[u8]> {
    command.args_iter().map(|arg| match arg {
        Arg::Simple(bytes) => bytes,
        _ => unreachable!("calls of scripts have no cursor"),
    })
}

/// What a member is called with.
struct Parts<'a> {
    operation: &'static str,
    keys: Vec<&'a [u8]>,
    arguments: Vec<&'a [u8]>,
}

impl<'a> Parts<'a> {
    fn of(member: &'a Member) -> Self {
        let mut words = parts(&member.command).skip(HEAD - 1);
        let count = words.next().and_then(|count| str::from_utf8(count).ok());
        let count: usize = count
            .and_then(|count| count.parse().ok())
            .expect("an EVALSHA has the number of its keys");
        Self {
            operation: member.script.name(),
            keys: words.by_ref().take(count).collect(),
            arguments: words.collect(),
        }
    }

    /// Whether it differs from another one only in the values at some places.
    fn is_like(&self, other: &Self) -> bool {
        self.operation == other.operation
            && self.keys.len() == other.keys.len()
            && self.arguments.len() == other.arguments.len()
    }
}

/// An argument of a batch.
enum Word<'a> {
    Text(&'a [u8]),
    Number(usize),
}

/// The call of `batch` for these members. Most members name the same tenant, budgets and day as the one before: of such a one only
/// what differs is sent, with its place. The form is that of `lua/lib/batch/run.lua`.
pub(super) fn encode(batch: &'static Script, members: &[Member]) -> Cmd {
    let (mut keys, mut words) = (Vec::new(), Vec::new());
    let mut last: Option<Parts<'_>> = None;
    for member in members {
        let parts = Parts::of(member);
        if let Some(last) = last.filter(|last| last.is_like(&parts)) {
            let changed_keys = changed(&last.keys, &parts.keys);
            let changed_arguments = changed(&last.arguments, &parts.arguments);
            words.push(Word::Text(b""));
            words.push(Word::Number(changed_keys.len()));
            words.push(Word::Number(changed_arguments.len()));
            words.extend(changed_keys.iter().map(|(at, _)| Word::Number(*at)));
            keys.extend(changed_keys.into_iter().map(|(_, key)| key));
            for (at, argument) in changed_arguments {
                words.extend([Word::Number(at), Word::Text(argument)]);
            }
        } else {
            words.push(Word::Text(parts.operation.as_bytes()));
            words.push(Word::Number(parts.keys.len()));
            words.push(Word::Number(parts.arguments.len()));
            keys.extend(&parts.keys);
            words.extend(parts.arguments.iter().copied().map(Word::Text));
        }
        last = Some(parts);
    }
    let mut command = batch.command(keys.len());
    for key in keys {
        command.arg(key);
    }
    for word in words {
        match word {
            Word::Text(text) => command.arg(text),
            Word::Number(number) => command.arg(number),
        };
    }
    command
}

/// The places at which two lists of one length differ, counted from 1, and what the second one has there.
fn changed<'a>(last: &[&[u8]], now: &[&'a [u8]]) -> Vec<(usize, &'a [u8])> {
    let pairs = last.iter().zip(now).enumerate();
    let changed = pairs.filter(|(_, (last, now))| last != now);
    changed.map(|(at, (_, now))| (at + 1, *now)).collect()
}

/// The outcomes to the members from the reply to their batch.
pub(super) fn read(
    batch: &'static Script,
    reply: Result<SentReply, StoreError>,
    members: usize,
) -> Vec<Outcome> {
    let (replies, sent) = match reply {
        Ok(SentReply {
            value: Value::Array(replies),
            too_few,
            sent_at,
        }) if replies.len() == members => (replies, (too_few, sent_at)),
        Ok(SentReply { value, .. }) => {
            let error = batch.unexpected("a reply for each member", &value);
            return each(members, || error.clone());
        }
        Err(error) => return each(members, || error.clone()),
    };
    let outcome = |value| match word_of(&value) {
        Some(("again", _)) => Outcome::Again,
        Some(("fault", error)) => Outcome::Sent(Err(failed(batch, error))),
        Some(("unknown", error)) => {
            let error = failed(batch, error).to_string();
            Outcome::Sent(Err(Unavailable::Interrupted { error }.into()))
        }
        _ => Outcome::Sent(Ok(SentReply {
            value,
            too_few: sent.0.clone(),
            sent_at: sent.1,
        })),
    };
    replies.into_iter().map(outcome).collect()
}

fn each(members: usize, error: impl Fn() -> StoreError) -> Vec<Outcome> {
    (0..members).map(|_| Outcome::Sent(Err(error()))).collect()
}

/// The first word of a member's reply, and the text behind it.
fn word_of(reply: &Value) -> Option<(&str, &str)> {
    let Value::Array(words) = reply else {
        return None;
    };
    let text = |at: usize| match words.get(at) {
        Some(Value::BulkString(bytes)) => str::from_utf8(bytes).ok(),
        _ => None,
    };
    Some((text(0)?, text(1).unwrap_or_default()))
}

/// An error that a member raised: its code, and what follows.
fn failed(batch: &'static Script, error: &str) -> StoreError {
    let (code, detail) = error.split_once(' ').unwrap_or((error, ""));
    batch.error(code, detail)
}
