//! What to do about an error that Redis answers: only what surely was not carried out is sent again.

use std::time::Duration;

use redis::{ServerError, ServerErrorKind};

use super::metrics::ExtraTrip;

/// What an error reply means for the request.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The node does not know the script; load it and go on.
    LoadScript,
    /// The slot belongs to the node at this address (host may be empty: the same host).
    Moved(String, u16),
    /// This one request belongs to the node at this address.
    Ask(String, u16),
    /// Nothing was done; wait a little and ask again.
    Again(ExtraTrip),
    /// Nothing was done and waiting is not for us to do: too few replicas, a failed disk.
    NotNow,
    /// Redis is at `maxmemory`.
    Full,
    /// The request itself failed.
    Failed,
}

/// Judges an error reply.
pub(crate) fn judge(error: &ServerError) -> Verdict {
    use ServerErrorKind as Kind;
    let details = error.details().unwrap_or("");
    match error.kind() {
        Some(Kind::NoScript) => Verdict::LoadScript,
        Some(Kind::Moved) => {
            redirect(details).map_or(Verdict::Failed, |(host, port)| Verdict::Moved(host, port))
        }
        Some(Kind::Ask) => {
            redirect(details).map_or(Verdict::Failed, |(host, port)| Verdict::Ask(host, port))
        }
        Some(Kind::TryAgain | Kind::BusyLoading | Kind::ClusterDown | Kind::MasterDown) => {
            Verdict::Again(ExtraTrip::TryAgain)
        }
        Some(Kind::ReadOnly) => Verdict::Again(ExtraTrip::ReadOnly),
        // A key that a script reads before its first write has moved; after the move the retry goes to its new node.
        _ if details.contains("attempted to access a non local key") => {
            Verdict::Again(ExtraTrip::TryAgain)
        }
        Some(_) => Verdict::Failed,
        None => match error.code() {
            "OOM" => Verdict::Full,
            "BUSY" => Verdict::Again(ExtraTrip::TryAgain),
            "NOREPLICAS" | "MISCONF" => Verdict::NotNow,
            _ => Verdict::Failed,
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
/// so that the replicas of a deployment do not come back all at once.
pub(crate) fn backoff(failures: u32) -> Duration {
    let ceiling_ms = (4u64 << failures.min(6)).min(250);
    Duration::from_micros(rand::random_range(ceiling_ms * 500..=ceiling_ms * 1000))
}

#[cfg(test)]
mod tests {
    use redis::{Value, parse_redis_value};

    use super::*;

    fn verdict(line: &str) -> Verdict {
        match parse_redis_value(format!("-{line}\r\n").as_bytes()) {
            Ok(Value::ServerError(error)) => judge(&error),
            other => panic!("not an error reply: {other:?}"),
        }
    }

    #[test]
    fn only_what_did_not_run_is_sent_again() {
        assert_eq!(verdict("NOSCRIPT No matching script."), Verdict::LoadScript);
        assert_eq!(
            verdict("MOVED 3999 127.0.0.1:6381"),
            Verdict::Moved("127.0.0.1".into(), 6381)
        );
        assert_eq!(
            verdict("MOVED 3999 :6381"),
            Verdict::Moved(String::new(), 6381)
        );
        assert_eq!(
            verdict("ASK 3999 ::1:6381"),
            Verdict::Ask("::1".into(), 6381)
        );
        assert_eq!(
            verdict("LOADING Redis is loading the dataset in memory"),
            Verdict::Again(ExtraTrip::TryAgain)
        );
        assert_eq!(
            verdict("READONLY Can not run script with write flag on readonly replica."),
            Verdict::Again(ExtraTrip::ReadOnly)
        );
        assert_eq!(
            verdict(
                "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
            ),
            Verdict::Again(ExtraTrip::TryAgain)
        );
        assert_eq!(
            verdict(
                "ERR Script attempted to access a non local key in a cluster node script: 0f, on @user_script:4."
            ),
            Verdict::Again(ExtraTrip::TryAgain)
        );
        assert_eq!(
            verdict(
                "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'"
            ),
            Verdict::Full
        );
        assert_eq!(
            verdict("NOREPLICAS Not enough good replicas to write."),
            Verdict::NotNow
        );
        assert_eq!(
            verdict("WRONGTYPE Operation against a key holding the wrong kind of value"),
            Verdict::Failed
        );
        assert_eq!(verdict("ERR user_script:3: boom"), Verdict::Failed);
        assert_eq!(verdict("NOAUTH Authentication required."), Verdict::Failed);
    }

    #[test]
    fn the_pause_grows_and_stays_bounded() {
        for failures in 0..40 {
            assert!(backoff(failures) <= Duration::from_millis(250));
        }
        assert!(backoff(10) >= Duration::from_millis(125));
    }
}
