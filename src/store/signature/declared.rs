//! The declaration of a script.

use crate::driver::script::{Argument, Form, Script};
use crate::store::keys::Key;

/// The declaration of a script.
#[derive(Debug)]
pub struct Signature {
    /// The script.
    pub script: Script,
    /// The Rust file with the declaration.
    pub file: &'static str,
    /// Its description.
    pub summary: &'static str,
    /// Of Redis, in its first line.
    pub flags: &'static str,
    /// Its keys, in order.
    pub keys: &'static [KeyUse],
    /// The keys of a list at the end.
    pub list: Option<KeyList>,
    /// Keys that it names itself.
    pub builds: &'static [(Access, &'static Key)],
    /// Its arguments, in order.
    pub args: &'static [ArgUse],
    /// Whether it is given the day, and its start in milliseconds.
    pub by_day: bool,
    /// Its replies, in order of precedence.
    pub replies: &'static [Word],
    /// The keys that it writes.
    pub writes: &'static str,
}

/// The access of a script to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Only reads it.
    Read,
    /// Writes it.
    Write,
}

/// A key of a script.
#[derive(Debug)]
pub struct KeyUse {
    /// Its name in the script.
    pub local: &'static str,
    /// The access of the script to it.
    pub access: Access,
    /// What it is.
    pub key: &'static Key,
    /// The names that it is made of.
    pub parts: &'static [&'static str],
    /// The argument without which it is left out.
    pub when: Option<&'static str>,
}

/// The keys at the end of a script's keys.
#[derive(Debug)]
pub struct KeyList {
    /// Its name in the script.
    pub local: &'static str,
    /// The access of the script to them.
    pub access: Access,
    /// Their possible keys.
    pub keys: &'static [&'static Key],
}

/// An argument of a script.
#[derive(Debug)]
pub struct ArgUse {
    /// Its name in the script.
    pub local: &'static str,
    /// How it is laid out.
    pub form: Form,
    /// The key, or beginning of keys, that it names, with its parts.
    pub key: Option<(&'static Key, &'static [&'static str])>,
    /// Its comment; empty for one that the heads of scripts explain by its name.
    pub note: &'static str,
}

/// The form of a value that is a field of another one.
pub(crate) const fn form_of<C, T: Argument>(_: fn(&C) -> &T) -> Form {
    T::FORM
}

/// A word that a script replies, and what follows it.
#[derive(Debug, Clone, Copy)]
pub struct Word {
    /// The first element of the reply.
    pub word: &'static str,
    /// Names of the others.
    pub fields: &'static [&'static str],
}
