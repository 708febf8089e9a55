//! The append-only file of a Redis that was restarted. If its end was torn, Redis cuts it within a transaction and appends behind
//! that: the next restart would run what is left of the transaction (docs/durability.md). A rewritten file has no such end.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use redis::Value;
use tokio::time::Instant;
use tracing::{info, warn};

use super::calls::NodeReplies;
use super::{Lane, Store};
use crate::driver::node::Node;

/// The pause before a node that refused is asked again.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// The nodes that have not rewritten their file since they started, by address, with the time at which they refused or failed.
#[derive(Debug, Default)]
pub(super) struct FilesAsFound(Mutex<BTreeMap<String, Instant>>);

/// What `INFO persistence` says of the append-only file.
#[derive(Debug, PartialEq, Eq)]
enum FileState {
    /// It has not been rewritten since Redis started.
    AsFound,
    /// The last rewrite failed.
    RewriteFailed,
    /// It has been rewritten, or is being rewritten, or there is none.
    Sound,
}

impl FileState {
    fn of_info(info: &str) -> Self {
        let says = |line: &str| info.lines().any(|found| found == line);
        let is_busy = says("loading:1")
            || says("aof_rewrite_in_progress:1")
            || says("aof_rewrite_scheduled:1");
        if !says("aof_enabled:1") || is_busy {
            Self::Sound
        } else if says("aof_last_bgrewrite_status:err") {
            Self::RewriteFailed
        } else if says("aof_last_rewrite_time_sec:-1") {
            Self::AsFound
        } else {
            Self::Sound
        }
    }
}

impl Store {
    /// Whether a node has refused to rewrite its append-only file after its start, or failed to.
    pub fn has_file_as_found(&self) -> bool {
        !self.inner.files_as_found.0.lock().is_empty()
    }

    /// Forgets nodes that hold no data any more, since others have taken over.
    pub(super) fn forget_files_of_others(&self, nodes: &NodeReplies) {
        let mut files = self.inner.files_as_found.0.lock();
        files.retain(|address, _| nodes.iter().any(|(node, _)| node.address == *address));
    }

    /// Makes a node rewrite its append-only file, if its `INFO` says that it has not done so since it started. Several processes
    /// may ask: the node rewrites it once.
    pub(super) async fn rewrite_file(&self, node: &Node, info: &str, limit: Duration) {
        let (files, address) = (&self.inner.files_as_found.0, &node.address);
        let refused_at = files.lock().get(address).copied();
        match FileState::of_info(info) {
            FileState::Sound => {
                files.lock().remove(address);
            }
            FileState::RewriteFailed => {
                self.note_file(address, "the last rewrite failed, see its log")
            }
            FileState::AsFound if refused_at.is_some_and(|at| at.elapsed() < ASK_AGAIN_AFTER) => {}
            FileState::AsFound => {
                let rewrite = redis::cmd("BGREWRITEAOF");
                let reply = node.send(Lane::Background, &rewrite, Instant::now() + limit);
                match reply.await {
                    Ok(Value::ServerError(refusal)) => {
                        let why = refusal.details().unwrap_or_default();
                        // Another process was faster.
                        if !why.contains("already in progress") {
                            self.note_file(address, &format!("{} {why}", refusal.code()));
                        }
                    }
                    Ok(_) => info!(
                        redis.address = %address,
                        "Redis at {address} has started: its append-only file is rewritten, since its end may be torn"
                    ),
                    // The next look asks again.
                    Err(_) => {}
                }
            }
        }
    }

    fn note_file(&self, address: &str, why: &str) {
        let mut files = self.inner.files_as_found.0.lock();
        if files.insert(address.to_owned(), Instant::now()).is_none() {
            warn!(
                redis.address = %address,
                "Redis at {address} may not have rewritten its append-only file since it started ({why}): if its end was torn, the next \
                 restart brings half of a transaction back. Allow BGREWRITEAOF, or run it (docs/durability.md)"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_rewritten_once_after_a_start() {
        let state = |changed: &str| {
            let info =
                "aof_enabled:1\r\naof_rewrite_in_progress:0\r\naof_last_rewrite_time_sec:-1\r\n";
            let (name, _) = changed.split_once(':').expect("a line");
            let others = info.lines().filter(|line| !line.starts_with(name));
            let lines: Vec<_> = others.chain([changed]).collect();
            FileState::of_info(&lines.join("\r\n"))
        };
        assert_eq!(state("loading:0"), FileState::AsFound);
        for sound in [
            "loading:1",
            "aof_enabled:0",
            "aof_rewrite_in_progress:1",
            "aof_last_rewrite_time_sec:0",
        ] {
            assert_eq!(state(sound), FileState::Sound, "{sound}");
        }
        let failed = state("aof_last_bgrewrite_status:err");
        assert_eq!(failed, FileState::RewriteFailed);
        assert_eq!(FileState::of_info(""), FileState::Sound);
    }
}
