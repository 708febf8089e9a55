//! The Lua scripts: embedded in the binary, assembled from their fragments on first use (see [`super::assemble`]), and
//! called by the digest of their text.

mod arg;

use std::sync::OnceLock;

use redis::{Cmd, Value};

use super::assemble::{Origin, Source, assemble};
use super::error::StoreError;
pub use arg::{Argument, Counted, Form};

/// The keys and arguments that most calls have at most, and their bytes.
const PARTS: usize = 80;
const BYTES: usize = 3 << 10;

/// A script of `lua/`.
#[derive(Debug)]
pub struct Script {
    path: &'static str,
    text: &'static str,
    fragments: &'static [Source],
    members: &'static [&'static Script],
    builds_keys: bool,
    assembled: OnceLock<Assembled>,
}

#[derive(Debug)]
struct Assembled {
    source: String,
    sha: String,
    origins: Vec<Origin>,
}

impl Script {
    /// The script `lua/<path>.lua`, and the fragments that it may include by name. `builds_keys`: whether it builds names
    /// of keys from what it reads, besides those in KEYS.
    pub const fn new(
        path: &'static str,
        text: &'static str,
        fragments: &'static [(&'static str, &'static str)],
        builds_keys: bool,
    ) -> Self {
        Self {
            path,
            text,
            fragments,
            members: &[],
            builds_keys,
            assembled: OnceLock::new(),
        }
    }

    /// The script of a batch, which runs calls of these other scripts; it builds names of keys as they do.
    #[must_use]
    pub const fn running(mut self, members: &'static [&'static Self]) -> Self {
        self.members = members;
        self.builds_keys = true;
        self
    }

    /// Whether this is the script of a batch that runs calls of `script`.
    pub fn runs(&self, script: &'static Self) -> bool {
        let mut members = self.members.iter();
        members.any(|member| std::ptr::eq(*member, script))
    }

    /// Where the file is, below `lua/` and without its ending.
    pub fn path(&self) -> &'static str {
        self.path
    }

    /// The label of metrics: the stem, but of an operator's script its folder, as there are many.
    pub fn metric_label(&self) -> &'static str {
        match self.path.rsplit_once('/') {
            Some((folder, _)) if folder.starts_with("admin") => folder,
            _ => self.name(),
        }
    }

    /// The file's stem.
    pub fn name(&self) -> &'static str {
        self.path
            .rsplit_once('/')
            .map_or(self.path, |(_, name)| name)
    }

    /// The file as it was written, before its fragments are included.
    pub fn text(&self) -> &'static str {
        self.text
    }

    /// The text that Redis runs.
    pub fn source(&self) -> &str {
        &self.assembled().source
    }

    /// The SHA-1 of the text, by which Redis knows it.
    pub fn sha(&self) -> &str {
        &self.assembled().sha
    }

    /// Whether it builds names of keys from what it reads, besides those in KEYS.
    pub fn builds_keys(&self) -> bool {
        self.builds_keys
    }

    /// Whether it may write.
    pub fn writes(&self) -> bool {
        let head = self.text.lines().next();
        head.is_none_or(|flags| !flags.contains("no-writes"))
    }

    fn assembled(&self) -> &Assembled {
        self.assembled.get_or_init(|| {
            let members = self.members.iter();
            let members: Vec<_> = members.map(|member| (member.path, member.text)).collect();
            let (source, origins) = assemble((self.path, self.text), self.fragments, &members)
                .expect("the scripts of a build are tested to assemble");
            let sha = redis::Script::new(&source).get_hash().to_owned();
            Assembled {
                source,
                sha,
                origins,
            }
        })
    }

    /// Where a line of the assembled text was written: file below `lua/` and line, both counted from 1.
    pub fn place(&self, line: usize) -> Option<String> {
        let origin = self.assembled().origins.get(line.checked_sub(1)?)?;
        let Origin { folder, path, line } = origin;
        Some(format!("{folder}{path}.lua:{line}"))
    }

    /// The `EVALSHA` of this script, with this number of keys, followed by its arguments.
    pub(crate) fn command(&self, keys: usize) -> Cmd {
        let mut command = Cmd::with_capacity(PARTS, BYTES);
        command.arg("EVALSHA").arg(self.sha()).arg(keys);
        command
    }

    /// The `EVAL` with the text of this script for its `EVALSHA`: it runs also where the script is not known.
    pub(crate) fn whole(&self, command: &Cmd) -> Cmd {
        let mut whole = redis::cmd("EVAL");
        whole.arg(self.source());
        for arg in command.args_iter().skip(2) {
            if let redis::Arg::Simple(bytes) = arg {
                whole.arg(bytes);
            }
        }
        whole
    }

    /// The error for a reply that is not `expected` at all.
    pub(crate) fn unexpected(&self, expected: &'static str, reply: &Value) -> StoreError {
        StoreError::Reply {
            script: self.name(),
            position: 0,
            expected,
            found: format!("{reply:?}").chars().take(80).collect(),
        }
    }

    /// An error of this script, with the place in the file where it was raised.
    pub(crate) fn error(&self, code: &str, detail: &str) -> StoreError {
        let line = detail.rsplit_once("user_script:").and_then(|(_, rest)| {
            let digits = rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len());
            rest[..digits].parse::<usize>().ok()
        });
        let place = line.and_then(|line| self.place(line));
        let message = detail.split(" script: ").next().unwrap_or(detail);
        StoreError::Script {
            script: self.name(),
            place: place.unwrap_or_else(|| format!("{}.lua", self.path)),
            message: format!("{code} {message}").trim_end().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
