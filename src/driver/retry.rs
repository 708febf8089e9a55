//! What to do about an error reply: a command is retried only when it certainly did not run.

use std::time::Duration;

use redis::{ServerError, ServerErrorKind};

use super::metrics::ExtraRoundTrip;

/// What to do about an error reply.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// Load the script, which the node does not know.
    LoadScript,
    /// Go to the node at this address, which owns the slot; an empty host means the same host.
    Moved(String, u16),
    /// Go to the node at this address, with this command only.
    Ask(String, u16),
    /// Retry after a pause; nothing was done.
    Retry(ExtraRoundTrip),
    /// Report that Redis is not ready, such as with too few replicas or a failed disk; nothing was done.
    NotReady,
    /// Report that Redis is at `maxmemory`.
    Full,
    /// Report the error of the command.
    Failed,
}

/// What to do about an error reply.
pub(crate) fn action(error: &ServerError) -> Action {
    use ServerErrorKind as Kind;
    let details = error.details().unwrap_or("");
    match error.kind() {
        Some(Kind::NoScript) => Action::LoadScript,
        Some(Kind::Moved) => {
            redirect(details).map_or(Action::Failed, |(host, port)| Action::Moved(host, port))
        }
        Some(Kind::Ask) => {
            redirect(details).map_or(Action::Failed, |(host, port)| Action::Ask(host, port))
        }
        Some(Kind::TryAgain | Kind::BusyLoading | Kind::ClusterDown | Kind::MasterDown) => {
            Action::Retry(ExtraRoundTrip::TryAgain)
        }
        Some(Kind::ReadOnly) => Action::Retry(ExtraRoundTrip::ReadOnly),
        // A key that a script reads before its first write has moved; the retry goes to its new owner.
        _ if details.contains("attempted to access a non local key") => {
            Action::Retry(ExtraRoundTrip::TryAgain)
        }
        Some(_) => Action::Failed,
        None => match error.code() {
            "OOM" => Action::Full,
            "BUSY" => Action::Retry(ExtraRoundTrip::TryAgain),
            "NOREPLICAS" | "MISCONF" => Action::NotReady,
            _ => Action::Failed,
        },
    }
}

/// The address in `<slot> <host>:<port>`; an IPv6 host has no brackets there.
fn redirect(details: &str) -> Option<(String, u16)> {
    let (_, address) = details.split_once(' ')?;
    let (host, port) = address.trim().rsplit_once(':')?;
    Some((host.trim_matches(['[', ']']).to_owned(), port.parse().ok()?))
}

/// The pause before attempt `failures + 1`: up to 4 ms after the first failure, doubling to 250 ms, half of it random,
/// so that the processes of a deployment do not retry all at once.
pub(crate) fn backoff(failures: u32) -> Duration {
    let ceiling_ms = (4u64 << failures.min(6)).min(250);
    Duration::from_micros(rand::random_range(ceiling_ms * 500..=ceiling_ms * 1000))
}

#[cfg(test)]
mod tests {
    use redis::{Value, parse_redis_value};

    use super::*;
    use crate::domain::rows;

    fn action_on(line: &str) -> Action {
        match parse_redis_value(format!("-{line}\r\n").as_bytes()) {
            Ok(Value::ServerError(error)) => action(&error),
            other => panic!("not an error reply: {other:?}"),
        }
    }

    #[test]
    fn only_commands_that_did_not_run_are_retried() {
        for (line, expected) in rows(
            r#"NOSCRIPT No matching script. => LoadScript
            MOVED 3999 127.0.0.1:6381 => Moved("127.0.0.1", 6381)
            MOVED 3999 :6381 => Moved("", 6381)
            ASK 3999 ::1:6381 => Ask("::1", 6381)
            LOADING Redis is loading the dataset in memory => Retry(TryAgain)
            READONLY Can not run script with write flag on readonly replica. => Retry(ReadOnly)
            BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE. => Retry(TryAgain)
            ERR Script attempted to access a non local key in a cluster node script: 0f, on @user_script:4. => Retry(TryAgain)
            OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory' => Full
            NOREPLICAS Not enough good replicas to write. => NotReady
            WRONGTYPE Operation against a key holding the wrong kind of value => Failed
            ERR user_script:3: boom => Failed
            NOAUTH Authentication required. => Failed"#,
        ) {
            assert_eq!(format!("{:?}", action_on(line)), expected, "{line}");
        }
    }

    #[test]
    fn the_pause_grows_up_to_a_limit() {
        for failures in 0..40 {
            assert!(backoff(failures) <= Duration::from_millis(250));
        }
        assert!(backoff(10) >= Duration::from_millis(125));
    }
}
