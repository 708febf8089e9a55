//! Views over all tenants, and how far they are: `set_watermarks.lua`. Dispatchers keep them, so that a query over all tenants
//! asks one slot and not every partition.
//!
//! A view is derived from the logs of the tenants: indexes per day whose rows say where an entry lies. It is whole up to a
//! time, the smallest of the partitions' watermarks; a query serves what lies before.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::domain::words::words;
use crate::store::records::command;
use crate::store::signature::signature;
use crate::store::{Lane, Store, StoreError, outcome};

signature! {
    /// Records how far some partitions are in a view over all tenants. Higher marks stay.
    ///
    /// A partition is under one time only. Dispatchers report one time for all partitions that they have followed to the end,
    /// so there are few of them, and a report is short however many partitions it is about. all: 0 while a partition has no time.
    SET_WATERMARKS: SetWatermarks -> SetWatermarksReply = "dispatcher/set_watermarks", flags "allow-oom";
    names { view: &'a str }
    keys of views { write watermarks(view); }
    args {
        /// Times in ms, and for each its partitions: a bit each, in 256 hexadecimal digits, the first partition first.
        reached: Vec<(i64, String)>,
    }
    replies { noted: Noted { all: i64 } }
    writes "On noted: the watermarks."
}

words! {
    /// The view.
    View: "snake_case" {
        /// The event logs.
        Events,
        /// The audit logs.
        Audit,
    }
}

/// Where an entry of a tenant's log lies. Its text is the member of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Of whose logs.
    pub partition: Partition,
    /// The entry.
    pub entry: EntryId,
    /// The tenant of the log, or a sentinel.
    pub tenant: String,
    /// The type of an event; `None` in the audit log.
    pub kind: Option<String>,
}

impl Row {
    /// `<partition> <entry, padded> <tenant>`, and the type of an event. In one millisecond the order of the texts is that
    /// of partitions, and in each that of the entries.
    pub fn member(&self) -> String {
        let (partition, entry) = (self.partition, self.entry.padded());
        match &self.kind {
            Some(kind) => format!("{partition} {entry} {} {kind}", self.tenant),
            None => format!("{partition} {entry} {}", self.tenant),
        }
    }

    /// Reads a member again; `None` for what is none.
    pub fn parse(member: &str) -> Option<Self> {
        let mut parts = member.splitn(4, ' ');
        Some(Self {
            partition: Partition::parse(parts.next()?)?,
            entry: EntryId::parse(parts.next()?)?,
            tenant: parts.next()?.to_owned(),
            kind: parts.next().map(str::to_owned),
        })
    }
}

/// Letters of the ids that an event can be asked for by.
pub const CORRELATION_ID: char = 'c';
/// Of requests.
pub const REQUEST_ID: char = 'r';
/// Of traces.
pub const TRACE_ID: char = 't';
/// Of what was acted upon.
pub const RESOURCE_ID: char = 'o';
/// Of API keys.
pub const KEY_ID: char = 'k';

/// How an index by ids names one: a letter for what kind of id it is, and 128 bits of its digest.
pub fn id_digest(letter: char, id: &str) -> String {
    let digest = BASE64_URL_SAFE_NO_PAD.encode(&Sha256::digest(id)[..16]);
    format!("{letter}{digest}")
}

/// A member of an index by ids. Those of one id have the order of [`Row::member`] within time.
pub(in crate::store) fn id_member(digest: &str, at_ms: i64, member: &str) -> String {
    format!("{digest} {at_ms:013} {member}")
}

impl Store {
    /// Notes up to when partitions are in a view: the time of the partition's node, in milliseconds, read before its
    /// source was found to hold nothing more. Answers up to when all partitions are, as [`Store::watermark`] does.
    pub async fn set_watermarks(
        &self,
        view: View,
        reached: &[(Partition, i64)],
    ) -> Result<i64, StoreError> {
        let call = SetWatermarks {
            view: view.as_str(),
            reached: sets_of(reached),
        };
        let SetWatermarksReply::Noted { all } = outcome(self.run(Lane::Background, &call).await)?;
        Ok(all)
    }

    /// All that happened before this time, in milliseconds, is in the view; 0 while some partition has not been looked
    /// at yet.
    pub async fn watermark(&self, view: View) -> Result<i64, StoreError> {
        let key = self.keys().watermarks(view.as_str());
        let found: Option<i64> = self.read(command("HGET", key, "all")).await?;
        Ok(found.unwrap_or(0))
    }
}

/// Each time and its partitions, a bit each in hexadecimal digits.
fn sets_of(reached: &[(Partition, i64)]) -> Vec<(i64, String)> {
    const DIGITS: usize = Partition::COUNT as usize / 4;
    let mut sets: BTreeMap<i64, [u8; DIGITS]> = BTreeMap::new();
    for (partition, ms) in reached {
        let place = usize::from(partition.index());
        let set = sets.entry(*ms).or_insert([0; DIGITS]);
        set[place / 4] |= 8 >> (place % 4);
    }
    let digits = |set: [u8; DIGITS]| set.iter().map(|digit| format!("{digit:x}")).collect();
    let sets = sets.into_iter();
    sets.map(|(ms, set)| (ms, digits(set))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_round_trips() {
        let row = Row {
            partition: Partition::parse("05f").expect("a partition"),
            entry: EntryId {
                ms: 1_700_000_000_000,
                sequence: 3,
            },
            tenant: "acme".to_owned(),
            kind: Some("budget.funded".to_owned()),
        };
        assert_eq!(row.member(), "05f 1700000000000-00003 acme budget.funded");
        assert_eq!(Row::parse(&row.member()), Some(row.clone()));
        let row = Row { kind: None, ..row };
        assert_eq!(row.member(), "05f 1700000000000-00003 acme");
        assert_eq!(Row::parse(&row.member()), Some(row));
        for text in ["", "05f", "05f 1-1", "400 1-1 acme", "05f 1 acme"] {
            assert_eq!(Row::parse(text), None, "{text}");
        }
    }

    #[test]
    fn partitions_are_grouped_by_their_time() {
        let partition = |index| Partition::new(index).expect("a partition");
        let reached = [(partition(0), 7), (partition(5), 7), (partition(1023), 9)];
        let sets = sets_of(&reached);
        let (first, last) = (
            format!("84{}", "0".repeat(254)),
            format!("{}1", "0".repeat(255)),
        );
        assert_eq!(sets, [(7, first), (9, last)]);
    }

    #[test]
    fn an_id_is_named_by_its_kind_and_digest() {
        let (trace, request) = (id_digest('t', "x"), id_digest('r', "x"));
        assert_eq!((trace.len(), request.len()), (23, 23));
        assert_eq!(trace[1..], request[1..]);
        assert_ne!(trace, request);
    }
}
