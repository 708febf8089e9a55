//! A message to Redis: an encoded call of a script, or a plain command.

use std::fmt;

use redis::{Arg, Cmd, Value};

use super::error::StoreError;
use super::reply::Reply;
use super::script::{Argument, Script};

/// One call of a script, ready to be sent. Its debug print shows no argument, because some hold secrets.
pub struct Call {
    pub(crate) script: &'static Script,
    pub(crate) command: Cmd,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut call = f.debug_struct(self.script.name());
        call.field("key", &self.key()).finish_non_exhaustive()
    }
}

impl Call {
    /// A call without arguments. All keys share the first one's hash tag.
    pub fn new<K: AsRef<str>>(script: &'static Script, keys: &[K]) -> Self {
        let mut call = Self::begin(script, keys.len());
        keys.iter().for_each(|key| call.push_key(key.as_ref()));
        call
    }

    /// A call with this number of keys, followed by its arguments.
    pub(crate) fn begin(script: &'static Script, keys: usize) -> Self {
        Self {
            script,
            command: script.command(keys),
        }
    }

    /// Adds the next key.
    pub(crate) fn push_key(&mut self, key: &str) {
        self.command.arg(key);
    }

    /// The first key, which says where the call goes.
    pub(crate) fn key(&self) -> &str {
        // After the name of the command, the script and the number of keys.
        match self.command.args_iter().nth(3) {
            Some(Arg::Simple(key)) => str::from_utf8(key).unwrap_or_default(),
            _ => "",
        }
    }

    /// The same with one more argument.
    #[must_use]
    pub fn with<A: Argument + ?Sized>(mut self, argument: &A) -> Self {
        argument.push(&mut self.command);
        self
    }

    /// The word that a reply to this call begins with.
    ///
    /// # Errors
    /// [`StoreError::Reply`].
    pub fn word(&self, reply: Value) -> Result<String, StoreError> {
        Reply::new(self.script, reply)?.read::<String>()
    }
}

/// A command; its script is loaded when the node does not know it.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    pub(crate) key: &'a str,
    pub(crate) command: &'a Cmd,
    pub(crate) script: Option<&'static Script>,
    /// For a write whose reply waits for replicas: a key in its slot that is written along.
    pub(crate) mark: Option<&'a str>,
}

impl<'a> From<&'a Call> for Request<'a> {
    fn from(call: &'a Call) -> Self {
        Self {
            script: Some(call.script),
            ..Self::from((call.key(), &call.command))
        }
    }
}

/// A plain command, and the key that says where it goes.
impl<'a, K: AsRef<str> + ?Sized> From<(&'a K, &'a Cmd)> for Request<'a> {
    fn from((key, command): (&'a K, &'a Cmd)) -> Self {
        Self {
            key: key.as_ref(),
            command,
            script: None,
            mark: None,
        }
    }
}

impl<'a> From<&'a (String, Cmd)> for Request<'a> {
    fn from((key, command): &'a (String, Cmd)) -> Self {
        Self::from((key, command))
    }
}
