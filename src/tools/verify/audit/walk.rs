//! Walking along one chain from its anchor to its head.

use std::collections::BTreeMap;

use super::report::{ChainRow, Finding};
use super::{Found, Place};
use crate::domain::audit::StoredEntry;
use crate::domain::log_entry::EntryId;
use crate::store::dispatcher::audit_chain::Chain;
use crate::store::dispatcher::audit_log::Stretch;
use crate::store::{Day, Store, StoreError};

/// Entries that are read at once.
const ROWS: usize = 500;
/// Entries that are kept until those before them have been found; beyond, these count as dropped.
const WAITING_MAX: usize = 10_000;
/// Findings that are told of one chain.
const FINDINGS_MAX: usize = 100;

/// What a walk came to.
pub(super) struct Walked {
    pub row: ChainRow,
    pub findings: Vec<Finding>,
    /// Whether retention removed something meanwhile, so that nothing is sure.
    pub moved: bool,
}

/// An entry with what was stored beside it.
struct Link {
    day: Day,
    stored: StoredEntry,
    seal: Option<String>,
}

struct Walk<'a> {
    place: &'a Place,
    chain: Chain,
    /// The number that comes next.
    next: u64,
    /// The hash of the entry before it; `None` behind a gap, where it is not known.
    hash: Option<String>,
    waiting: BTreeMap<u64, Link>,
    /// Numbers and hashes that were kept with the seals of days: retention takes them for the anchor.
    heads: BTreeMap<u64, String>,
    /// Entries that retention should have removed.
    behind: u64,
    /// The last number with a seal.
    last_seal: u64,
    row: ChainRow,
    findings: Vec<Finding>,
}

pub(super) async fn chain(
    store: &Store,
    place: &Place,
    found: &Found,
    mut read: impl FnMut(u64),
) -> Result<Walked, StoreError> {
    let Some(chain) = known(store.audit_chain(place.partition, &place.name).await)? else {
        return Ok(unreadable(place));
    };
    let mut walk = Walk::new(place, chain);
    for day in &found.days {
        let mut after = None;
        loop {
            let Some(page) = page(store, place, *day, after).await? else {
                walk.find(
                    "altered",
                    None,
                    format!("the log of {day} is no log any more"),
                );
                break;
            };
            let full = page.entries.len() == ROWS;
            read(page.entries.len() as u64);
            after = page.last;
            walk.heads.extend(page.head);
            for link in page.entries {
                walk.meet(link);
            }
            if !full || after.is_none() {
                break;
            }
        }
    }
    let again = known(store.audit_chain(place.partition, &place.name).await)?;
    Ok(walk.end(again.as_ref()))
}

struct Page {
    entries: Vec<Link>,
    last: Option<EntryId>,
    head: Option<(u64, String)>,
}

/// Entries of a day with their seals; `None` where the keys hold something else.
async fn page(
    store: &Store,
    place: &Place,
    day: Day,
    after: Option<EntryId>,
) -> Result<Option<Page>, StoreError> {
    let stretch = Stretch {
        day,
        after,
        descending: false,
        rows: ROWS,
    };
    let (partition, name) = (place.partition, place.name.as_str());
    let entries = store.audit_entries(partition, name, &[stretch]).await;
    let Some(mut entries) = known(entries)? else {
        return Ok(None);
    };
    let entries = entries.pop().unwrap_or_default();
    let numbers: Vec<u64> = entries
        .iter()
        .map(|entry| entry.sequence().unwrap_or(0))
        .collect();
    let seals = store.audit_seals(partition, name, day, &numbers).await;
    let Some(mut seals) = known(seals)? else {
        return Ok(None);
    };
    let head = seals.pop().flatten();
    let head = head.as_deref().and_then(|head| {
        let (number, hash) = head.split_once(' ')?;
        Some((number.parse().ok()?, hash.to_owned()))
    });
    let last = entries.last().and_then(|entry| EntryId::parse(&entry.id));
    let link = |(stored, seal)| Link { day, stored, seal };
    Ok(Some(Page {
        entries: entries.into_iter().zip(seals).map(link).collect(),
        last,
        head,
    }))
}

/// A key of another type is a finding, not a failure.
fn known<T>(read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(StoreError::Refused { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl<'a> Walk<'a> {
    fn new(place: &'a Place, chain: Chain) -> Self {
        Self {
            place,
            next: chain.anchor_sequence + 1,
            hash: Some(chain.anchor_hash.clone()),
            waiting: BTreeMap::new(),
            heads: BTreeMap::new(),
            behind: 0,
            last_seal: 0,
            row: ChainRow {
                tenant: place.name.clone(),
                partition: place.partition.to_string(),
                anchor_sequence: chain.anchor_sequence,
                verified: 0,
                unsealed: 0,
                sealed_sequence: chain.sealed_sequence,
                sealed_hash: chain.sealed_hash.clone(),
            },
            findings: Vec::new(),
            chain,
        }
    }

    fn find(&mut self, kind: &'static str, sequence: Option<u64>, detail: String) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(Finding {
                tenant: self.place.name.clone(),
                partition: self.place.partition.to_string(),
                kind,
                sequence,
                detail,
            });
        }
    }

    /// Takes an entry as it comes along the logs.
    fn meet(&mut self, link: Link) {
        let (id, day) = (link.stored.id.clone(), link.day);
        let Some(sequence) = link.stored.sequence().filter(|sequence| *sequence > 0) else {
            return self.find("inserted", None, format!("entry {id} has no number"));
        };
        let at_ms = link.stored.get("at_ms").and_then(|ms| ms.parse().ok());
        if at_ms.map(Day::of_ms) != Some(day) {
            let detail = format!("entry {id} lies in the log of {day}, which is not its day");
            self.find("altered", Some(sequence), detail);
        }
        if sequence <= self.chain.anchor_sequence && link.seal.is_some() {
            self.behind += 1;
        } else if sequence < self.next || self.waiting.contains_key(&sequence) {
            let detail = format!("entry {id} has a number that was given before");
            self.find("inserted", Some(sequence), detail);
        } else {
            self.waiting.insert(sequence, link);
        }
        self.advance();
        if self.waiting.len() > WAITING_MAX {
            self.pass_gap();
        }
    }

    /// Goes on as far as the numbers have no gap.
    fn advance(&mut self) {
        while let Some(link) = self.waiting.remove(&self.next) {
            self.follow(&link);
            self.next += 1;
        }
    }

    /// Gives up numbers that no entry has.
    fn pass_gap(&mut self) {
        let Some(first) = self.waiting.first_key_value().map(|(number, _)| *number) else {
            return;
        };
        self.dropped(first - 1);
        self.next = first;
        self.hash = None;
        self.advance();
    }

    fn dropped(&mut self, last: u64) {
        let detail = match last - self.next {
            0 => "the entry of this number is gone".to_owned(),
            more => format!(
                "the entries from this number to {} are gone",
                self.next + more
            ),
        };
        self.find("dropped", Some(self.next), detail);
    }

    /// Checks the next entry against its seal.
    fn follow(&mut self, link: &Link) {
        let number = self.next;
        if link.seal.is_some() {
            self.last_seal = number;
        }
        if number > self.chain.sealed_sequence {
            self.row.unsealed += 1;
            return;
        }
        match (&link.seal, &self.hash) {
            (None, _) => {
                let detail = format!("entry {} has no seal", link.stored.id);
                self.find("seal", Some(number), detail);
            }
            (Some(seal), Some(hash)) if seal != hash => self.mismatch(number),
            _ => self.row.verified += 1,
        }
        let seal = link.seal.as_deref().or(self.hash.as_deref());
        self.hash = seal.map(|seal| link.stored.hash(&self.place.name, seal));
        let kept = self.heads.remove(&number);
        // An altered entry is told once, by the seal that follows it.
        let apart = kept.filter(|kept| *kept != self.chain.sealed_hash);
        if apart.is_some_and(|kept| self.hash.as_ref().is_some_and(|hash| *hash != kept)) {
            let detail = "the hash that was kept with the day's seals is not its hash".to_owned();
            self.find("seal", Some(number), detail);
        }
        if number == self.chain.sealed_sequence
            && self.hash.as_ref() != Some(&self.chain.sealed_hash)
        {
            self.mismatch(number + 1);
        }
    }

    /// What the seal of this number says of the entry before it is not so.
    fn mismatch(&mut self, number: u64) {
        let before = number - 1;
        if before == self.chain.anchor_sequence {
            let detail = "its seal is not the anchor's hash".to_owned();
            return self.find("seal", Some(number), detail);
        }
        let detail = format!("the entry is not the one whose hash was sealed with {number}");
        self.find("altered", Some(before), detail);
    }

    fn end(mut self, again: Option<&Chain>) -> Walked {
        let Some(again) = again else {
            return unreadable(self.place);
        };
        let anchor = |chain: &Chain| (chain.anchor_sequence, chain.anchor_dropped);
        let moved = anchor(again) != anchor(&self.chain);
        // What was appended while the logs were read may have been met in part.
        while self
            .waiting
            .first_key_value()
            .is_some_and(|(number, _)| *number <= self.chain.sequence)
        {
            self.pass_gap();
        }
        if self.next <= self.chain.sequence {
            self.dropped(self.chain.sequence);
        }
        let beyond: Vec<_> = self.waiting.keys().copied().collect();
        let given = again.sequence.max(self.chain.sequence);
        for number in beyond.into_iter().chain([self.next - 1]) {
            if number > given {
                let detail = format!("the chain has given no number beyond {given}");
                self.find("inserted", Some(number), detail);
            }
        }
        if self.last_seal > again.sealed_sequence {
            let last = again.sealed_sequence;
            let detail = format!("it has a seal, but the chain says that {last} was the last");
            self.find("seal", Some(self.last_seal), detail);
        }
        let kept =
            self.chain.anchor_sequence - self.chain.anchor_dropped.min(self.chain.anchor_sequence);
        if self.behind != kept {
            let detail = format!(
                "{} entries lie before the anchor, where retention left {kept}",
                self.behind
            );
            self.find("seal", Some(self.chain.anchor_sequence), detail);
        }
        Walked {
            row: self.row,
            findings: self.findings,
            moved,
        }
    }
}

fn unreadable(place: &Place) -> Walked {
    let mut walk = Walk::new(place, Chain::empty());
    walk.find(
        "seal",
        None,
        "the chain's key holds something else".to_owned(),
    );
    Walked {
        row: walk.row,
        findings: walk.findings,
        moved: false,
    }
}
