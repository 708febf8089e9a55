//! `seal.lua`, and what is known of an audit chain: how far it goes, how far it is sealed, and where it begins.

use crate::domain::audit::{GENESIS, StoredEntry};
use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::domain::record::Record;
use crate::store::records::{NO_ARGS, command, lossy};
use crate::store::signature::signature;
use crate::store::{Day, Lane, Lease, OnFailure, Store, StoreError, unless_fenced};

signature! {
    /// Seals entries of an audit chain that were appended on one day, behind those that are sealed: stores with the number of each
    /// the hash of the entry before it. When all of the chain is sealed, its name leaves the list of those to be sealed.
    ///
    /// left: how many entries are not sealed yet. passed: another dispatcher has sealed meanwhile. Without seals only the list is
    /// corrected.
    SEAL: Seal -> SealReply = "dispatcher/seal", flags "allow-oom";
    keys of partition of fencing_token { read lease(); write chain(tenant), seals(tenant, sealed_day), unsealed(); }
    args {
        tenant: &'a str,
        fencing_token: Lease,
        /// The value that was read before.
        sealed_sequence: u64,
        /// Of the last entry that is sealed now.
        sequence: u64,
        /// Of the last entry that is sealed now.
        hash: &'a str,
        /// The id of that entry in its stream.
        entry: String,
        sealed_day: Day,
        /// Sequence and seal of each.
        new: &'a [(u64, String)],
    }
    replies {
        fenced, passed: Passed { sealed_sequence: i64 }, sealed: Sealed { sequence: u64, left: i64 },
    }
    writes "On sealed: the seals, the chain, the list."
}

/// An audit chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// Number of the last entry; 0 for an empty chain.
    pub sequence: u64,
    /// Number of the last entry that is sealed.
    pub sealed_sequence: u64,
    /// Its hash: the seal of the next.
    pub sealed_hash: String,
    /// Where it lies, if it is sealed since there are seals.
    pub sealed_at: Option<(Day, EntryId)>,
    /// Number of the last entry that retention removed.
    pub anchor_sequence: u64,
    /// Its hash: the seal of the first that is left.
    pub anchor_hash: String,
    /// How many entries retention removed in all. Fewer than [`Chain::anchor_sequence`] where one that was appended out of
    /// the order of days is still there.
    pub anchor_dropped: u64,
}

/// Seals for entries of one day.
#[derive(Debug, Clone)]
pub struct NewSeals {
    /// The day of their log.
    pub day: Day,
    /// Number and seal of each.
    pub seals: Vec<(u64, String)>,
    /// The id of the last.
    pub last: EntryId,
    /// The hash of the last.
    pub hash: String,
}

impl Store {
    /// Reads what is known of a chain; one of which nothing is known is empty.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::ErrorReply`] where its key holds something else.
    pub async fn audit_chain(
        &self,
        partition: Partition,
        tenant: &str,
    ) -> Result<Chain, StoreError> {
        let key = self.keys().chain(partition, tenant);
        let record: Record = self.read(command("HGETALL", key, NO_ARGS)).await?;
        Ok(Chain::read(&record))
    }

    /// The names whose chains are to be sealed in each partition; `None` where the node is out of reach.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub async fn unsealed(
        &self,
        partitions: &[Partition],
    ) -> Result<Vec<Option<Vec<String>>>, StoreError> {
        let names = |p: &Partition| command("SMEMBERS", self.keys().unsealed(*p), NO_ARGS);
        let found = self.read_each(OnFailure::Skip, partitions.iter().map(names));
        Ok(found.await?.into_iter().map(Result::ok).collect())
    }

    /// Seals entries behind `chain.sealed_sequence`; without `new` only looks whether all is sealed. `None` where another
    /// dispatcher holds the lease by now.
    pub async fn seal(
        &self,
        lease: Lease,
        tenant: &str,
        chain: &Chain,
        new: Option<&NewSeals>,
    ) -> Result<Option<SealReply>, StoreError> {
        let last = new.and_then(|new| new.seals.last());
        let call = Seal {
            tenant,
            fencing_token: lease,
            sealed_sequence: chain.sealed_sequence,
            sequence: last.map_or(chain.sealed_sequence, |(sequence, _)| *sequence),
            hash: new.map_or("", |new| &new.hash),
            entry: new.map_or(String::new(), |new| new.last.to_string()),
            sealed_day: new.map_or(Day::of_ms(0), |new| new.day),
            new: new.map_or(&[], |new| &new.seals),
        };
        unless_fenced(self.run(Lane::Background, &call).await)
    }
}

impl Chain {
    /// One of which nothing is known.
    pub fn empty() -> Self {
        Self::read(&Record::default())
    }

    fn read(record: &Record) -> Self {
        let number = |name: &str| record.get(name).and_then(|text| text.parse().ok());
        let hash = |name: &str| record.get(name).unwrap_or(GENESIS).to_owned();
        let day = record.get("sealed_day").and_then(Day::parse);
        let anchor_sequence = number("anchor_sequence").unwrap_or(0);
        let sealed = number("sealed_sequence");
        Self {
            sequence: number("sequence").unwrap_or(0),
            // What retention removed was sealed, or was never to be.
            sealed_sequence: sealed.unwrap_or(0),
            sealed_hash: hash("sealed_hash"),
            sealed_at: day.zip(record.get("sealed_entry").and_then(EntryId::parse)),
            anchor_sequence,
            anchor_hash: hash("anchor_hash"),
            anchor_dropped: number("anchor_dropped").unwrap_or(anchor_sequence),
        }
    }
}

/// A part of the log of one day.
#[derive(Debug, Clone, Copy)]
pub struct Stretch {
    /// The day.
    pub day: Day,
    /// Behind this entry; in front of it when descending.
    pub after: Option<EntryId>,
    /// Newest first.
    pub descending: bool,
    /// Entries at most.
    pub rows: usize,
}

impl Store {
    /// Reads parts of the logs of one name in one partition, all at once; each comes in its own order.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::ErrorReply`] where a key holds something else.
    pub async fn audit_entries(
        &self,
        partition: Partition,
        tenant: &str,
        stretches: &[Stretch],
    ) -> Result<Vec<Vec<StoredEntry>>, StoreError> {
        let range = |stretch: &Stretch| {
            let key = self.keys().audit(partition, tenant, stretch.day);
            let after = stretch.after.map(|entry| format!("({entry}"));
            let (name, from, to) = match stretch.descending {
                true => ("XREVRANGE", after.as_deref().unwrap_or("+"), "-"),
                false => ("XRANGE", after.as_deref().unwrap_or("-"), "+"),
            };
            command(name, key, (from, to, "COUNT", stretch.rows))
        };
        let found = self.read_all(stretches.iter().map(range)).await?;
        Ok(found.into_iter().map(entries).collect())
    }

    /// The seals of a day by number; `None` for one that is not there. Behind them the number and hash of the last that was
    /// sealed of the day, as stored.
    pub async fn audit_seals(
        &self,
        partition: Partition,
        tenant: &str,
        day: Day,
        numbers: &[u64],
    ) -> Result<Vec<Option<String>>, StoreError> {
        let key = self.keys().seals(partition, tenant, day);
        let read = command("HMGET", key, (numbers, "last"));
        let mut seals: Vec<Option<String>> = self.read(read).await?;
        seals.resize(numbers.len() + 1, None);
        Ok(seals)
    }
}

/// Ids and fields of entries. Bytes that are no text are replaced: an entry of another writer must not hide the others.
fn entries(found: Vec<(String, Vec<Vec<u8>>)>) -> Vec<StoredEntry> {
    let entry = |(id, fields): (String, Vec<Vec<u8>>)| StoredEntry {
        id,
        fields: fields.into_iter().map(lossy).collect(),
    };
    found.into_iter().map(entry).collect()
}
