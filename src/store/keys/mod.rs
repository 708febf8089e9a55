//! Every key of the store. [`catalogue`] declares each once: its name, pattern and Redis type, what it holds and when it
//! goes. The functions that build keys, the headers of the scripts and `docs/redis.md` follow from that.
//!
//! The partition in braces is the hash tag, so all keys of a tenant share a cluster slot. `{dir}` holds the directories,
//! `{all}` the views over all tenants.

mod catalogue;

use std::fmt::Write as _;
use std::mem;

use parking_lot::Mutex;
use smol_str::{SmolStr, ToSmolStr as _, format_smolstr};

use crate::domain::ids::Partition;
use crate::driver::clock::Day;
use crate::driver::cluster::slot_of;

pub use catalogue::{deployment, directory, partition, views};

/// A key as it is declared.
#[derive(Debug)]
pub struct Key {
    /// Its name in the code.
    pub name: &'static str,
    /// Its name, after the prefix of the deployment.
    pub place: &'static str,
    /// The Redis type.
    pub kind: &'static str,
    /// Its pattern: a text, then a part of the name where there is one.
    pub pieces: &'static [(&'static str, Option<&'static str>)],
    /// What it holds, then its fields; an empty line between paragraphs.
    pub holds: &'static str,
    /// When it is removed, or its entries are.
    pub goes: &'static str,
}

impl Key {
    /// Every key, in the order of the catalogue.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        let places = [deployment::ALL, directory::ALL, partition::ALL, views::ALL];
        places.into_iter().flatten().copied()
    }

    /// Its pattern with these names for its parts: `tenant:<owner>`.
    pub fn pattern(&self, parts: &[&str]) -> String {
        let mut parts = parts.iter();
        let piece = |(text, part): &(&str, Option<&str>)| match part {
            Some(part) => format!("{text}<{}>", parts.next().unwrap_or(part)),
            None => (*text).to_owned(),
        };
        self.pieces.iter().map(piece).collect()
    }
}

/// Builds keys under one prefix, so that a Redis can hold several deployments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    prefix: String,
}

/// Builds keys of one partition.
#[derive(Debug)]
pub struct PartitionKeys {
    start: SmolStr,
    /// The memory of a key that is no longer needed, for the next one: a request needs some fifteen.
    spare: Mutex<String>,
}

/// Why a key prefix is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a key prefix has 1 to 64 characters of A-Z a-z 0-9 . _ - :")]
pub struct PrefixError;

/// A value that is a segment of a key's name.
pub trait KeySegment {
    /// Appends it.
    fn push_to(&self, key: &mut String);
}

impl KeySegment for str {
    fn push_to(&self, key: &mut String) {
        key.push_str(self);
    }
}

impl KeySegment for String {
    fn push_to(&self, key: &mut String) {
        key.push_str(self);
    }
}

impl<T: KeySegment + ?Sized> KeySegment for &T {
    fn push_to(&self, key: &mut String) {
        (**self).push_to(key);
    }
}

/// A key that is not passed has no name.
impl<T: KeySegment> KeySegment for Option<T> {
    fn push_to(&self, key: &mut String) {
        if let Some(segment) = self {
            segment.push_to(key);
        }
    }
}

impl KeySegment for Day {
    fn push_to(&self, key: &mut String) {
        let _ = write!(key, "{self}");
    }
}

impl KeySegment for Partition {
    fn push_to(&self, key: &mut String) {
        let number = u32::from(self.index());
        for shift in [8, 4, 0] {
            key.push(char::from_digit(number >> shift & 15, 16).unwrap_or('0'));
        }
    }
}

/// A UTC minute by any of its milliseconds; written `yyyymmddhhmm`.
impl KeySegment for i64 {
    fn push_to(&self, key: &mut String) {
        let minute = self.rem_euclid(86_400_000) / 60_000;
        Day::of_ms(*self).push_to(key);
        let _ = write!(key, "{:02}{:02}", minute / 60, minute % 60);
    }
}

/// Declares the keys of one place: `/// What it holds.` `name: type = ("text" part "text" …), "when it goes";`. Makes of
/// each a function that builds it and a [`Key`] of the same name.
macro_rules! keys {
    (partition { $($(#[doc = $holds:literal])+ $name:ident: $kind:ident = ($($text:literal $($part:ident)?)+), $goes:literal;)* }) => {
        keys!(@declare partition "{<p>}:" $($(#[doc = $holds])+ $name: $kind = ($($text $($part)?)+), $goes;)*);

        impl super::Keys {
            $(
                $(#[doc = $holds])+
                pub fn $name(&self, partition: $crate::domain::ids::Partition $($(, $part: impl super::KeySegment)?)+) -> String {
                    self.of(partition).$name($($($part,)?)+)
                }
            )*
        }

        impl super::PartitionKeys {
            $(
                $(#[doc = $holds])+
                pub fn $name(&self $($(, $part: impl super::KeySegment)?)+) -> String {
                    let mut key = self.begin();
                    $(key.push_str($text); $(super::KeySegment::push_to(&$part, &mut key);)?)+
                    key
                }
            )*
        }
    };
    ($place:ident $start:literal { $($(#[doc = $holds:literal])+ $name:ident: $kind:ident = ($($text:literal $($part:ident)?)+), $goes:literal;)* }) => {
        keys!(@declare $place $start $($(#[doc = $holds])+ $name: $kind = ($($text $($part)?)+), $goes;)*);

        impl super::Keys {
            $(
                $(#[doc = $holds])+
                pub fn $name(&self $($(, $part: impl super::KeySegment)?)+) -> String {
                    let mut key = super::start(&self.prefix);
                    key.push_str(concat!(":", $start));
                    $(key.push_str($text); $(super::KeySegment::push_to(&$part, &mut key);)?)+
                    key
                }
            )*
        }
    };
    (@declare $place:ident $start:literal $($(#[doc = $holds:literal])+ $name:ident: $kind:ident = ($($text:literal $($part:ident)?)+), $goes:literal;)*) => {
        /// The keys of one place, by name.
        #[allow(non_upper_case_globals, reason = "a key is called as the function that builds it")]
        pub mod $place {
            use crate::store::keys::Key;
            $(
                $(#[doc = $holds])+
                pub static $name: Key = Key {
                    name: stringify!($name),
                    place: $start,
                    kind: stringify!($kind),
                    pieces: &[$(($text, super::keys!(@part $($part)?))),+],
                    holds: concat!($($holds, "\n"),+),
                    goes: $goes,
                };
            )*
            /// All of them.
            pub static ALL: &[&Key] = &[$(&$name),*];
        }
    };
    (@part $part:ident) => { Some(stringify!($part)) };
    (@part) => { None };
}
use keys;

impl PartitionKeys {
    fn begin(&self) -> String {
        let mut key = match mem::take(&mut *self.spare.lock()) {
            spare if spare.capacity() == 0 => start(&self.start),
            mut spare => {
                spare.clear();
                spare.push_str(&self.start);
                spare
            }
        };
        key.push_str("}:");
        key
    }

    /// Takes the memory of a key back.
    pub(super) fn reuse(&self, key: String) {
        *self.spare.lock() = key;
    }

    /// The beginning of a key's name, up to the first part that `parts` lack.
    pub(super) fn prefix_of(&self, key: &Key, parts: &[&dyn KeySegment]) -> String {
        let (mut prefix, mut parts) = (self.begin(), parts.iter());
        for (text, part) in key.pieces {
            prefix.push_str(text);
            match part.and_then(|_| parts.next()) {
                Some(part) => part.push_to(&mut prefix),
                None => break,
            }
        }
        prefix
    }
}

/// A key that begins so.
fn start(text: &str) -> String {
    let mut key = String::with_capacity(96);
    key.push_str(text);
    key
}

impl Keys {
    /// Keys that start with `prefix`.
    ///
    /// # Errors
    /// [`PrefixError`]; braces above all would move the hash tag.
    pub fn new(prefix: &str) -> Result<Self, PrefixError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-:".contains(c);
        if (1..=64).contains(&prefix.len()) && prefix.chars().all(allowed) {
            let prefix = prefix.to_owned();
            Ok(Self { prefix })
        } else {
            Err(PrefixError)
        }
    }

    /// The keys of one partition.
    pub fn of(&self, partition: Partition) -> PartitionKeys {
        PartitionKeys {
            start: format_smolstr!("{}:{{{partition}", self.prefix),
            spare: Mutex::default(),
        }
    }

    /// As [`PartitionKeys`] has it. Scripts of other places have few keys, so their memory is not kept.
    pub(super) fn reuse(&self, _: String) {}

    /// Prefix of every key.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The cluster slot, 0 to 16383, in which all keys of a partition lie.
    pub fn slot(partition: Partition) -> u16 {
        slot_of(partition.to_smolstr().as_bytes())
    }

    /// The key `replicated` in the slot of another key.
    pub fn replicated_beside(&self, key: &str) -> String {
        let start = key
            .find("}:")
            .map_or(self.prefix.as_str(), |tag| &key[..=tag]);
        format!("{start}:replicated")
    }

    /// A day's rows of a view by time in milliseconds; those of one kind, if `kind` names one.
    pub fn view(&self, view: &str, kind: Option<&str>, day: Day) -> String {
        match kind {
            None => self.view_rows(view, day),
            Some(kind) => self.view_rows_of_kind(view, kind, day),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_carry_the_partition_as_hash_tag() {
        let keys = Keys::new("ba").expect("a prefix");
        let day = Day::of_ms(1_709_164_800_000);
        let p = Partition::parse("05f").expect("a partition");
        assert_eq!(keys.meta(), "ba:meta");
        assert_eq!(keys.directory(), "ba:{dir}:tenants");
        let budget = keys.budget(p, "acme", "TOKENS", "tenant:acme");
        assert_eq!(budget, "ba:{05f}:budget:acme:TOKENS:tenant:acme");
        let reservations = keys.reservations(p, "acme", day);
        assert_eq!(reservations, "ba:{05f}:rsvs:acme:20240229");
        assert_eq!(keys.outbox(p), "ba:{05f}:outbox");
        assert_eq!(keys.idempotency(p, "acme", "abc"), "ba:{05f}:idem:acme:abc");
        assert_eq!(keys.replicated_beside(&budget), keys.replicated(p));
        assert_eq!(keys.replicated_beside(&keys.meta()), "ba:replicated");
        let resets = keys.view("events", Some("budget.reset"), day);
        assert_eq!(resets, "ba:{all}:events:budget.reset:20240229");
        let minute = keys.denials_of_minute(day.start_ms() + 83_045_678);
        assert_eq!(minute, "ba:{all}:denials:202402292304");
        assert_eq!(keys.view("audit", None, day), "ba:{all}:audit:20240229");
        assert_eq!(keys.view_ids("events", day), "ba:{all}:events_ids:20240229");
        assert_eq!(keys.view_ids("audit", day), "ba:{all}:audit_ids:20240229");
    }

    #[test]
    fn every_key_is_declared_with_its_content_and_its_removal() {
        let types = ["hash", "zset", "set", "stream", "list", "string"];
        let mut names = std::collections::HashSet::new();
        for key in Key::all() {
            let name = key.name;
            assert!(types.contains(&key.kind), "{name}: {}", key.kind);
            let is_described = !key.holds.trim().is_empty() && !key.goes.is_empty();
            assert!(is_described, "{name}");
            assert!(names.insert(name), "{name} is declared twice");
        }
        let pattern = partition::budget.pattern(&[]);
        assert_eq!(pattern, "budget:<tenant>:<unit>:<scope>");
        assert_eq!(partition::tenant.pattern(&["owner"]), "tenant:<owner>");
    }

    #[test]
    fn a_prefix_cannot_move_the_hash_tag() {
        assert!(Keys::new("team-a:prod_1.x").is_ok());
        for prefix in ["", "a{b", "a}", "a b", &"x".repeat(65)] {
            assert_eq!(Keys::new(prefix), Err(PrefixError), "{prefix}");
        }
    }
}
