//! The streams of evidence that is to be signed, one per partition, and those of entries that nobody can sign:
//! `read_unsigned.lua`, `quarantine_unsigned.lua`.

use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::domain::record::Record;
use crate::driver::reply::Nested;
use crate::store::records::{NO_ARGS, command, lossy};
use crate::store::signature::signature;
use crate::store::{Lane, OnFailure, Store, StoreError, outcome};

signature! {
    /// Reads entries of evidence that is to be signed, behind a place, each with the fields of the reservation that it names: of
    /// as many as a number of rows and of bytes allows. The fields are an empty array where there is no reservation.
    ///
    /// next: the first entry behind those; '' if there is none.
    READ_UNSIGNED: ReadUnsigned -> ReadUnsignedReply = "dispatcher/read_unsigned", flags "no-writes,allow-oom";
    names { partition: Partition }
    keys of partition { read unsigned(); }
    builds { read reservation() }
    args {
        /// An entry.
        after: String,
        rows: usize,
        bytes: usize,
        /// Whether the first entry is read whatever its bytes are.
        at_least_one: bool,
        names: &'a [&'a str],
    }
    replies {
        entries: Entries { next: Option<String>, entry_facts_fields: Vec<(EntryId, Bytes, Bytes)> },
    }
    writes "Nothing."
}

signature! {
    /// Moves an entry of evidence that nobody can sign into quarantine. Entries come there in no order, so each also has the
    /// time of the oldest one up to it.
    QUARANTINE_UNSIGNED: QuarantineUnsigned -> QuarantineUnsignedReply = "dispatcher/quarantine_unsigned", flags "allow-oom";
    names { partition: Partition }
    keys of partition { write unsigned(), unsignable(); }
    args {
        entry: String,
        why: &'a str,
        /// The oldest beyond go.
        kept: usize,
    }
    replies { gone: Gone, quarantined: Quarantined }
    writes "On quarantined: the entry, from one stream to the other."
}

/// Entries that are kept in quarantine in each partition; the oldest go first.
const QUARANTINED_MAX: usize = 10_000;

/// Values in an array, as bytes.
type Bytes = Nested<Vec<Option<Vec<u8>>>>;

/// An entry and where it is.
pub type Queued = (Partition, EntryId);

/// An entry of evidence that is to be signed.
#[derive(Debug, Clone)]
pub struct UnsignedEntry {
    /// Where it is.
    pub place: Queued,
    /// Its fields.
    pub facts: Record,
    /// The fields of the reservation that it names; empty where there is none, or it is damaged.
    pub record: Record,
}

/// A read of a stream.
#[derive(Debug, Clone)]
pub struct UnsignedRead {
    /// In order.
    pub entries: Vec<UnsignedEntry>,
    /// The first one behind them.
    pub next: Option<EntryId>,
}

/// How much of each stream is read at once.
#[derive(Debug, Clone, Copy)]
pub struct ReadBounds {
    /// Entries.
    pub rows: usize,
    /// Bytes of entries and records.
    pub bytes: usize,
    /// Whether the first entry is read whatever its bytes are.
    pub at_least_one: bool,
}

impl Store {
    /// Those of the partitions that have unsigned entries, and how many. A partition out of reach is left out.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub async fn with_unsigned(
        &self,
        partitions: &[Partition],
    ) -> Result<Vec<(Partition, usize)>, StoreError> {
        let lengths = self.lengths(partitions, |p| self.keys().unsigned(p));
        let counted = partitions.iter().copied().zip(lengths.await?);
        Ok(counted.filter(|(_, count)| *count > 0).collect())
    }

    /// How many entries are in quarantine in these partitions; those out of reach count none.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub async fn quarantined(&self, partitions: &[Partition]) -> Result<usize, StoreError> {
        let lengths = self.lengths(partitions, |p| self.keys().unsignable(p));
        Ok(lengths.await?.into_iter().sum())
    }

    /// The length of a stream in each partition, 0 where the node is out of reach.
    async fn lengths(
        &self,
        partitions: &[Partition],
        key: impl Fn(Partition) -> String,
    ) -> Result<Vec<usize>, StoreError> {
        let count = |partition: &Partition| command("XLEN", key(*partition), NO_ARGS);
        let lengths = self.read_each(OnFailure::Skip, partitions.iter().map(count));
        let lengths = lengths.await?.into_iter();
        Ok(lengths.map(Result::unwrap_or_default).collect())
    }

    /// Entries of streams behind places, with the `names` fields of their reservations; `None` where the node is out of reach.
    ///
    /// # Errors
    /// [`StoreError`] when the deployment cannot be read.
    pub async fn read_unsigned(
        &self,
        places: &[Queued],
        bounds: ReadBounds,
        names: &[&str],
    ) -> Result<Vec<Option<UnsignedRead>>, StoreError> {
        let call = |(partition, after): &Queued| ReadUnsigned {
            partition: *partition,
            after: after.to_string(),
            rows: bounds.rows,
            bytes: bounds.bytes,
            at_least_one: bounds.at_least_one,
            names,
        };
        let calls: Vec<_> = places.iter().map(call).collect();
        let replies = self.run_each(&calls).await?.into_iter();
        let read = |((partition, _), reply): (&Queued, Result<_, StoreError>)| {
            let ReadUnsignedReply::Entries {
                next,
                entry_facts_fields: rows,
            } = reply.ok()?;
            let entry = |(place, facts, fields): (EntryId, Bytes, Bytes)| UnsignedEntry {
                place: (*partition, place),
                facts: Record::from_pairs(facts.0.into_iter().flatten().map(lossy).collect()),
                record: record(names, fields.0),
            };
            Some(UnsignedRead {
                entries: rows.into_iter().map(entry).collect(),
                next: next.as_deref().and_then(EntryId::parse),
            })
        };
        Ok(places.iter().zip(replies).map(read).collect())
    }

    /// The first entry of each stream; `None` where there is none, and where the node is out of reach.
    ///
    /// # Errors
    /// As for [`Store::read_unsigned`].
    pub async fn first_unsigned(
        &self,
        partitions: &[Partition],
    ) -> Result<Vec<Option<EntryId>>, StoreError> {
        let places: Vec<Queued> = partitions.iter().map(|p| (*p, EntryId::ZERO)).collect();
        let bounds = ReadBounds {
            rows: 0,
            bytes: 0,
            at_least_one: false,
        };
        let heads = self.read_unsigned(&places, bounds, &[]).await?;
        Ok(heads.into_iter().map(|head| head?.next).collect())
    }

    /// Removes entries that are done. Returns of each whether it is gone: not where its node is out of reach, or refuses.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub async fn drop_unsigned(&self, entries: &[Queued]) -> Result<Vec<bool>, StoreError> {
        let delete = |(partition, entry): &Queued| {
            command("XDEL", self.keys().unsigned(*partition), entry.to_string())
        };
        let gone = self.read_each::<Option<i64>>(OnFailure::Skip, entries.iter().map(delete));
        let is_gone = |count| matches!(count, Ok(Some(_)));
        Ok(gone.await?.into_iter().map(is_gone).collect())
    }

    /// Puts an entry that nobody can sign into quarantine, with the reason. Returns whether it was still queued.
    ///
    /// # Errors
    /// [`StoreError`]
    pub async fn quarantine_unsigned(
        &self,
        (partition, entry): Queued,
        why: &str,
    ) -> Result<bool, StoreError> {
        let call = QuarantineUnsigned {
            partition,
            entry: entry.to_string(),
            why,
            kept: QUARANTINED_MAX,
        };
        let reply = outcome(self.run(Lane::Background, &call).await)?;
        Ok(matches!(reply, QuarantineUnsignedReply::Quarantined))
    }
}

/// A record of which envelopes are made, so none at all where a field is damaged.
fn record(names: &[&str], fields: Vec<Option<Vec<u8>>>) -> Record {
    let text = |field: Option<Vec<u8>>| field.map(String::from_utf8).transpose();
    let fields: Result<Vec<_>, _> = fields.into_iter().map(text).collect();
    fields.map_or_else(
        |_| Record::default(),
        |fields| Record::from_fields(names, fields),
    )
}
