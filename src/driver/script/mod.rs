//! The Lua scripts: embedded in the binary, assembled from their shared parts on first use, and called by name.
//!
//! A line `-- @include access, int64` is replaced by the text of `lua/lib/access.lua` and `lua/lib/int64.lua`. Each part
//! is taken in once per script, parts of parts as well. The first line of a script, `#!lua flags=…`, stays first.

mod arg;

use std::sync::OnceLock;

use redis::Cmd;

pub use super::assemble::IncludeError;
use super::assemble::{Origin, assemble};
use super::contract::Contract;
use super::error::StoreError;
pub use arg::Arg;

/// A script of `lua/`. Its name is the file's stem.
#[derive(Debug)]
pub struct Script {
    folder: &'static str,
    name: &'static str,
    text: &'static str,
    parts: &'static [(&'static str, &'static str)],
    assembled: OnceLock<Assembled>,
}

#[derive(Debug)]
struct Assembled {
    source: String,
    sha: String,
    origins: Vec<Origin>,
}

impl Script {
    /// The script `lua/<folder>/<name>.lua`, and the parts that it may include by name.
    pub const fn new(
        folder: &'static str,
        name: &'static str,
        text: &'static str,
        parts: &'static [(&'static str, &'static str)],
    ) -> Self {
        Self {
            folder,
            name,
            text,
            parts,
            assembled: OnceLock::new(),
        }
    }

    /// The file's stem.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The text that Redis runs.
    pub fn source(&self) -> &str {
        &self.assembled().source
    }

    /// The SHA-1 of the text, by which Redis knows it.
    pub fn sha(&self) -> &str {
        &self.assembled().sha
    }

    /// Whether it builds names of keys from what it reads, besides those in KEYS. Its header says so.
    pub(crate) fn builds_keys(&self) -> bool {
        self.text.contains("Keys built:")
    }

    /// The file as it was written, before its parts are included.
    #[cfg(test)]
    pub(crate) fn text(&self) -> &'static str {
        self.text
    }

    /// Whether all parts are there. A test checks every script.
    ///
    /// # Errors
    /// See [`IncludeError`].
    pub fn check(&self) -> Result<(), IncludeError> {
        assemble(self.name, self.text, self.parts).map(drop)
    }

    fn assembled(&self) -> &Assembled {
        self.assembled.get_or_init(|| {
            let (source, origins) = assemble(self.name, self.text, self.parts)
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
        Some(match origin.part {
            None => format!("{}/{}.lua:{}", self.folder, self.name, origin.line),
            Some(part) => format!("lib/{part}.lua:{}", origin.line),
        })
    }

    /// The `EVALSHA` of this script.
    pub(crate) fn command<K: AsRef<[u8]>>(&self, keys: &[K], args: &[Arg<'_>]) -> Cmd {
        debug_assert_eq!(
            Contract::of(self.text).breach(keys.len(), args.len()),
            None,
            "the call keeps the contract of {}.lua",
            self.name
        );
        let size = keys.iter().map(|key| key.as_ref().len()).sum::<usize>()
            + args.iter().map(|arg| arg.len()).sum::<usize>();
        let mut command = Cmd::with_capacity(3 + keys.len() + args.len(), 64 + size);
        command.arg("EVALSHA").arg(self.sha()).arg(keys.len());
        for key in keys {
            command.arg(key.as_ref());
        }
        for arg in args {
            match arg {
                Arg::Bytes(bytes) => command.arg(*bytes),
                Arg::Integer(integer) => command.arg(*integer),
            };
        }
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
            script: self.name,
            place: place.unwrap_or_else(|| format!("{}/{}.lua", self.folder, self.name)),
            message: format!("{code} {message}").trim_end().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
