//! The append-only file of a server: whether Redis has rewritten it, and a loss of power that leaves a part of a transaction in it.

use std::fs;

use rand::{Rng, RngExt as _};

use super::redis::RedisServer;

/// The commands around the writes of a script.
const BEGIN: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
const END: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

impl RedisServer {
    /// Whether it has rewritten its file since it started. Before that, the end of the file that it found may be torn.
    pub fn has_rewritten(&self) -> bool {
        let info: String = self.run(&["INFO", "persistence"]);
        info.contains("rewrite_in_progress:0") && !info.contains("last_rewrite_time_sec:-1")
    }

    /// Cuts the file of a server that was killed, at any byte of the last transaction with this text. Returns how many bytes
    /// are gone; `None` when the text is only in an older file.
    pub fn cut_within(&self, text: &str, random: &mut impl Rng) -> Option<usize> {
        let folder = self.folder().join("appendonlydir");
        let manifest = folder.join("appendonly.aof.manifest");
        let manifest = fs::read_to_string(manifest).expect("a manifest");
        // Such as `file appendonly.aof.2.incr.aof seq 2 type i`. Redis appends to the last one.
        let appended = manifest.lines().rfind(|line| line.ends_with(" type i"));
        let name = appended.and_then(|line| line.split(' ').nth(1));
        let file = folder.join(name.expect("a file that is appended to"));
        let bytes = fs::read(&file).expect("it can be read");
        let middle = last(&bytes, text.as_bytes())?;
        let begin = last(&bytes[..middle], BEGIN).expect("a script with several writes");
        let end = bytes[middle..].windows(END.len()).position(|it| it == END);
        let end = middle + end.expect("Redis wrote all of it") + END.len();
        let length = random.random_range(begin + 1..end);
        let opened = fs::File::options().write(true).open(&file);
        let cut = opened.and_then(|file| file.set_len(length as u64));
        cut.expect("it can be cut");
        Some(bytes.len() - length)
    }
}

/// Where the last occurrence begins.
fn last(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).rposition(|it| it == part)
}
