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

/// The call of `batch` for these members; its keys and arguments are those that the script names.
pub(super) fn encode(batch: &'static Script, members: &[Member]) -> Cmd {
    let keys_of = |command: &Cmd| {
        let count = parts(command).nth(HEAD - 1).map(str::from_utf8);
        let count = count.and_then(|count| count.ok()?.parse::<usize>().ok());
        count.expect("an EVALSHA has the number of its keys")
    };
    let counts: Vec<_> = members.iter().map(|it| keys_of(&it.command)).collect();
    let mut command = batch.command(counts.iter().sum());
    for (member, keys) in members.iter().zip(&counts) {
        for key in parts(&member.command).skip(HEAD).take(*keys) {
            command.arg(key);
        }
    }
    for (member, keys) in members.iter().zip(&counts) {
        let behind = HEAD + keys;
        let arguments = parts(&member.command).count() - behind;
        command.arg(member.script.name()).arg(*keys).arg(arguments);
        for argument in parts(&member.command).skip(behind) {
            command.arg(argument);
        }
    }
    command
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
