//! A call of a script, encoded and ready to be sent.

use std::fmt;

use redis::{Cmd, Value};

use super::error::StoreError;
use super::reply::Reply;
use super::script::{Arg, Script};

/// One call of a script, ready to be sent. Its debug print shows no argument, because some hold secrets.
pub struct Call {
    pub(crate) script: &'static Script,
    /// The first key, which says where the call goes.
    pub(crate) key: String,
    pub(crate) command: Cmd,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut call = f.debug_struct(self.script.name());
        call.field("key", &self.key).finish_non_exhaustive()
    }
}

impl Call {
    /// All keys share the first one's hash tag.
    pub fn new<K: AsRef<str>>(script: &'static Script, keys: &[K], args: &[Arg<'_>]) -> Self {
        let keys: Vec<&str> = keys.iter().map(AsRef::as_ref).collect();
        Self {
            script,
            key: keys.first().copied().unwrap_or_default().to_owned(),
            command: script.command(&keys, args),
        }
    }

    /// The word that a reply to this call begins with.
    ///
    /// # Errors
    /// [`StoreError::Reply`].
    pub fn word(&self, reply: Value) -> Result<String, StoreError> {
        Reply::new(self.script, reply)?.next_str()
    }
}
