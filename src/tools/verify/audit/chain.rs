//! Verifies one audit chain, from its anchor to its last entry.

use std::collections::{BTreeMap, BTreeSet};

use super::{ChainRow, Finding};
use crate::domain::audit::StoredEntry;
use crate::domain::log_entry::EntryId;
use crate::store::dispatcher::audit_chain::{Chain, Stretch};
use crate::store::{Day, Store, StoreError};
use crate::tools::verify::inventory::ChainId;

/// Entries per page.
const ROWS: usize = 500;
/// Entries held back until the ones before them are found; beyond this, the missing ones count as dropped.
const WAITING_MAX: usize = 10_000;
/// Findings reported per chain.
const FINDINGS_MAX: usize = 100;

/// A verified chain.
pub(super) struct Verified {
    pub row: ChainRow,
    pub findings: Vec<Finding>,
    /// Whether retention removed something meanwhile, so that the findings are uncertain.
    pub changed: bool,
}

/// An entry with its seal.
struct Entry {
    day: Day,
    stored: StoredEntry,
    seal: Option<String>,
}

struct ChainVerifier<'a> {
    id: &'a ChainId,
    chain: Chain,
    /// The next sequence number.
    next: u64,
    /// The hash of the entry before it; `None` after a gap.
    hash: Option<String>,
    waiting: BTreeMap<u64, Entry>,
    /// Numbers and hashes kept with the seals of each day, from which retention moves the anchor.
    heads: BTreeMap<u64, String>,
    /// Entries before the anchor.
    before_anchor: u64,
    /// The last number with a seal.
    last_seal: u64,
    found: Verified,
}

/// Verifies the chain `id` with entries or seals on `days`; calls `read` with the number of entries of each page.
pub(super) async fn verify(
    store: &Store,
    id: &ChainId,
    days: &BTreeSet<Day>,
    mut read: impl FnMut(u64),
) -> Result<Verified, StoreError> {
    let Some(chain) = readable(store.audit_chain(id.partition, &id.name).await)? else {
        return Ok(unreadable(id));
    };
    let mut verifier = ChainVerifier::new(id, chain);
    for day in days {
        let added = verifier.add_day(store, *day, &mut read).await;
        if readable(added)?.is_none() {
            let detail = format!("the key of the log of {day} holds something else");
            verifier.report("altered", None, detail);
        }
    }
    let again = readable(store.audit_chain(id.partition, &id.name).await)?;
    Ok(verifier.finish(again.as_ref()))
}

/// `None` for a key of another type, which is a finding and not a failure.
fn readable<T>(read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(StoreError::ErrorReply { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl<'a> ChainVerifier<'a> {
    fn new(id: &'a ChainId, chain: Chain) -> Self {
        Self {
            id,
            next: chain.anchor_sequence + 1,
            hash: Some(chain.anchor_hash.clone()),
            waiting: BTreeMap::new(),
            heads: BTreeMap::new(),
            before_anchor: 0,
            last_seal: 0,
            found: Verified {
                row: ChainRow {
                    tenant: id.name.clone(),
                    partition: id.partition.to_string(),
                    anchor_sequence: chain.anchor_sequence,
                    verified: 0,
                    unsealed: 0,
                    sealed_sequence: chain.sealed_sequence,
                    sealed_hash: chain.sealed_hash.clone(),
                },
                findings: Vec::new(),
                changed: false,
            },
            chain,
        }
    }

    fn report(&mut self, kind: &'static str, sequence: Option<u64>, detail: impl Into<String>) {
        if self.found.findings.len() < FINDINGS_MAX {
            self.found.findings.push(Finding {
                tenant: self.id.name.clone(),
                partition: self.id.partition.to_string(),
                kind,
                sequence,
                detail: detail.into(),
            });
        }
    }

    /// Adds the entries of a day with their seals, page by page.
    async fn add_day(
        &mut self,
        store: &Store,
        day: Day,
        read: &mut impl FnMut(u64),
    ) -> Result<(), StoreError> {
        let (partition, name) = (self.id.partition, self.id.name.as_str());
        let mut after = None;
        loop {
            let stretch = Stretch {
                day,
                after,
                descending: false,
                rows: ROWS,
            };
            let mut entries = store.audit_entries(partition, name, &[stretch]).await?;
            let entries = entries.pop().unwrap_or_default();
            let numbers = entries.iter().map(|entry| entry.sequence().unwrap_or(0));
            let numbers: Vec<u64> = numbers.collect();
            let mut seals = store.audit_seals(partition, name, day, &numbers).await?;
            let head = seals.pop().flatten();
            let head = head.as_deref().and_then(|head| head.split_once(' '));
            let head = head.and_then(|(number, hash)| Some((number.parse().ok()?, hash.into())));
            self.heads.extend(head);
            read(entries.len() as u64);
            let full = entries.len() == ROWS;
            after = entries.last().and_then(|entry| EntryId::parse(&entry.id));
            for (stored, seal) in entries.into_iter().zip(seals) {
                self.add(Entry { day, stored, seal });
            }
            if !full || after.is_none() {
                return Ok(());
            }
        }
    }

    /// Adds an entry in the order of the logs.
    fn add(&mut self, entry: Entry) {
        let (id, day) = (entry.stored.id.clone(), entry.day);
        let Some(sequence) = entry.stored.sequence().filter(|sequence| *sequence > 0) else {
            let detail = format!("entry {id} has no sequence number");
            return self.report("inserted", None, detail);
        };
        let at_ms = entry.stored.get("at_ms").and_then(|ms| ms.parse().ok());
        if at_ms.map(Day::of_ms) != Some(day) {
            let detail = format!("entry {id} is in the log of {day}, which is not its day");
            self.report("altered", Some(sequence), detail);
        }
        if sequence <= self.chain.anchor_sequence && entry.seal.is_some() {
            self.before_anchor += 1;
        } else if sequence < self.next || self.waiting.contains_key(&sequence) {
            let detail = format!("entry {id} repeats a sequence number");
            self.report("inserted", Some(sequence), detail);
        } else {
            self.waiting.insert(sequence, entry);
        }
        self.advance();
        if self.waiting.len() > WAITING_MAX {
            self.skip_gap();
        }
    }

    /// Checks waiting entries up to the next gap.
    fn advance(&mut self) {
        while let Some(entry) = self.waiting.remove(&self.next) {
            self.check(&entry);
            self.next += 1;
        }
    }

    /// Reports missing numbers and continues after them.
    fn skip_gap(&mut self) {
        let Some(first) = self.waiting.first_key_value().map(|(number, _)| *number) else {
            return;
        };
        self.dropped(first - 1);
        self.next = first;
        self.hash = None;
        self.advance();
    }

    /// Reports that the entries from the next number to `last` are missing.
    fn dropped(&mut self, last: u64) {
        let detail = match last == self.next {
            true => "the entry of this number is gone".to_owned(),
            false => format!("the entries from this number to {last} are gone"),
        };
        self.report("dropped", Some(self.next), detail);
    }

    /// Checks the next entry against its seal.
    fn check(&mut self, entry: &Entry) {
        let number = self.next;
        if entry.seal.is_some() {
            self.last_seal = number;
        }
        if number > self.chain.sealed_sequence {
            self.found.row.unsealed += 1;
            return;
        }
        match (&entry.seal, &self.hash) {
            (None, _) => {
                let detail = format!("entry {} has no seal", entry.stored.id);
                self.report("seal", Some(number), detail);
            }
            (Some(seal), Some(hash)) if seal != hash => self.mismatch(number),
            _ => self.found.row.verified += 1,
        }
        let seal = entry.seal.as_deref().or(self.hash.as_deref());
        self.hash = seal.map(|seal| entry.stored.hash(&self.id.name, seal));
        let kept = self.heads.remove(&number);
        // An altered entry is reported once, by the seal that follows it.
        let other = kept.filter(|kept| *kept != self.chain.sealed_hash);
        if other.is_some_and(|kept| self.hash.as_ref().is_some_and(|hash| *hash != kept)) {
            let detail = "the hash kept with the day's seals is not its hash";
            self.report("seal", Some(number), detail);
        }
        if number == self.chain.sealed_sequence
            && self.hash.as_ref() != Some(&self.chain.sealed_hash)
        {
            self.mismatch(number + 1);
        }
    }

    /// Reports that the seal of this number is not the hash of the entry before it.
    fn mismatch(&mut self, number: u64) {
        let before = number - 1;
        if before == self.chain.anchor_sequence {
            let detail = "its seal is not the anchor's hash";
            return self.report("seal", Some(number), detail);
        }
        let detail = format!("the entry is not the one whose hash was sealed with {number}");
        self.report("altered", Some(before), detail);
    }

    /// Completes the report. `again` is the chain as it is after all pages were read.
    fn finish(mut self, again: Option<&Chain>) -> Verified {
        let Some(again) = again else {
            return unreadable(self.id);
        };
        let anchor = |chain: &Chain| (chain.anchor_sequence, chain.anchor_dropped);
        self.found.changed = anchor(again) != anchor(&self.chain);
        // Entries appended while the logs were read may have been read in part.
        while let Some((number, _)) = self.waiting.first_key_value()
            && *number <= self.chain.sequence
        {
            self.skip_gap();
        }
        if self.next <= self.chain.sequence {
            self.dropped(self.chain.sequence);
        }
        let beyond: Vec<_> = self.waiting.keys().copied().collect();
        let given = again.sequence.max(self.chain.sequence);
        for number in beyond.into_iter().chain([self.next - 1]) {
            if number > given {
                let detail = format!("the chain's last sequence number is {given}");
                self.report("inserted", Some(number), detail);
            }
        }
        if self.last_seal > again.sealed_sequence {
            let last = again.sealed_sequence;
            let detail = format!("it has a seal, but the chain says that {last} was the last");
            self.report("seal", Some(self.last_seal), detail);
        }
        let kept = (self.chain.anchor_sequence).saturating_sub(self.chain.anchor_dropped);
        let found = self.before_anchor;
        if found != kept {
            let detail =
                format!("{found} entries are before the anchor, where retention left {kept}");
            self.report("seal", Some(self.chain.anchor_sequence), detail);
        }
        self.found
    }
}

/// The result for a chain whose key holds something else.
fn unreadable(id: &ChainId) -> Verified {
    let mut verifier = ChainVerifier::new(id, Chain::empty());
    verifier.report("seal", None, "the chain's key holds something else");
    verifier.found
}
