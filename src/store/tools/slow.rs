//! Calls of scripts that took long, from Redis's slow log: for benchmarks.

use std::time::Duration;

use redis::{FromRedisValue as _, Value};
use tokio::time::Instant;

use crate::store::scripts::SIGNATURES;
use crate::store::{Store, StoreError};

/// Entries that each node keeps and that a read returns; older ones are lost.
const KEPT: usize = 1_000;

/// One call of a script that took long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlowCall {
    /// The name of the script.
    pub script: &'static str,
    /// Time that it took of Redis's one thread, in microseconds. On a busy machine this includes waits for a processor.
    pub us: u64,
}

impl Store {
    /// Empties the slow logs of all nodes, which from now on keep what takes longer than `limit`. For private nodes only:
    /// it changes their settings.
    ///
    /// # Errors
    /// When a node cannot be asked, or an ACL forbids it.
    pub async fn watch_slow_calls(&self, limit: Duration) -> Result<(), StoreError> {
        let deadline = Instant::now() + self.timeout();
        let mut config = redis::cmd("CONFIG");
        config.arg("SET").arg("slowlog-log-slower-than");
        config.arg(u64::try_from(limit.as_micros()).unwrap_or(u64::MAX));
        config.arg("slowlog-max-len").arg(KEPT);
        self.everywhere(&config, deadline).await?;
        let mut reset = redis::cmd("SLOWLOG");
        reset.arg("RESET");
        self.everywhere(&reset, deadline).await.map(drop)
    }

    /// What the slow logs hold.
    ///
    /// # Errors
    /// As for [`Store::watch_slow_calls`].
    pub async fn slow_calls(&self) -> Result<Vec<SlowCall>, StoreError> {
        let deadline = Instant::now() + self.timeout();
        let mut get = redis::cmd("SLOWLOG");
        get.arg("GET").arg(KEPT);
        let replies = self.everywhere(&get, deadline).await?.into_iter();
        let entries = replies.filter_map(|(_, reply)| Vec::<Value>::from_redis_value(reply).ok());
        Ok(entries.flatten().filter_map(read).collect())
    }
}

/// Reads an entry: its number, its time, how long it took and its arguments come first.
fn read(entry: Value) -> Option<SlowCall> {
    let fields = Vec::<Value>::from_redis_value(entry).ok()?;
    let [_, _, us, arguments, ..] = &fields[..] else {
        return None;
    };
    let arguments = Vec::<String>::from_redis_value(arguments.clone()).ok()?;
    Some(SlowCall {
        script: name(&arguments)?,
        us: u64::from_redis_value(us.clone()).ok()?,
    })
}

/// The script that was called; `None` for commands that are none, or that a script has run.
fn name(arguments: &[String]) -> Option<&'static str> {
    let [command, sha, ..] = arguments else {
        return None;
    };
    let mut signatures = SIGNATURES.iter();
    let signature = signatures.find(|signature| signature.script.sha() == sha)?;
    let is_call = command.eq_ignore_ascii_case("evalsha");
    is_call.then(|| signature.script.name())
}
