//! `fan_out.lua`: queues deliveries; and what tells for whom: cursors, marks and subscriptions.

use std::collections::BTreeMap;
use std::fmt;

use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::domain::record::Record;
use crate::domain::webhook::Owner;
use crate::store::records::{NO_ARGS, command, read_or_default, read_reply};
use crate::store::signature::{Counted, signature};
use crate::store::{Lane, MemoryStep, Store, StoreError};

/// Records that are read at once.
const RECORDS: usize = 100;

/// A part of what `fan_out.lua` queues: the cursor of an outbox; tenants that it leaves out, and that are followed apart from now on;
/// deliveries.
pub(crate) type FanOutPart = (
    ((String, String), (String, String)),
    (Counted<Vec<String>>, Counted<Vec<(String, String)>>),
    Counted<Vec<QueuedDelivery>>,
);

/// One delivery to be queued: number of the owner, subscription and its epoch, which is unknown where its record cannot be read; id, lane and place of the event; type of the event
/// and trace.
pub(crate) type QueuedDelivery = (
    (usize, String, Option<i64>),
    (String, String, String),
    (String, String),
);

signature! {
    /// Queues the deliveries of some events of outboxes, and moves the cursors of these, both or neither. Where a cursor is not as
    /// the caller read it, another has followed that outbox meanwhile. Who remembers an owner's subscriptions proves by their mark
    /// that these are still the same; if they are not, nothing is written.
    ///
    /// A delivery that exists already is passed over. Where a subscription or its owner has as many open as may be, or Redis is full,
    /// the subscription falls behind: only the place is kept from which on its events are queued later. So does one without an epoch,
    /// whose record cannot be read. queued: how many were queued.
    ///
    /// A tenant can have a cursor apart. While it has, the main one leaves it out; it ends when it has reached the main one.
    FAN_OUT: FanOut -> FanOutReply = "dispatcher/fan_out", flags "allow-oom";
    names { partition: Partition }
    keys of partition { write fanned(), lanes(), open: open_deliveries(), behind_index: behind(); }
    each { read marks: webhooks_mark }
    builds { read tenant; write delivery, lane, window, deliveries }
    args {
        day,
        /// First attempts of a lane that may be in flight at once.
        lane_concurrency: u32,
        /// Whether Redis has no memory for deliveries.
        is_full: bool,
        tenant_prefix = tenant_prefix(),
        delivery_prefix = delivery_prefix(),
        lane_prefix = lane_prefix(),
        window_prefix = window_prefix(),
        deliveries_prefix = deliveries_prefix(),
        /// Owners and the marks of their subscriptions, in the order of the keys.
        owners: Counted<&'a [(String, String)]>,
        /// In order: the field of the cursor, and of the main one of its outbox; the cursor as it was read or ''; the cursor to be;
        /// a number of places, and in these the cursors of tenants that were left out; a number of places, and in these the cursors
        /// of tenants that are followed apart from now on, and their values; a number of places, and in these for each delivery the
        /// number of its owner, from 1; its subscription and that one's epoch; its id, lane, place of the event, type of the event
        /// and trace.
        parts: &'a [FanOutPart],
    }
    replies {
        clock, stale: Stale { owners: Vec<String> }, fanned: Fanned { queued: i64, damaged: String, cursors: Vec<String> },
    }
    writes "On fanned: deliveries, their lanes and windows, the cursors."
}

/// Up to where the events of an outbox were given to subscriptions: a whole entry, or one in the middle of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FannedTo {
    /// The entry.
    pub entry: EntryId,
    /// Where it is not done: the number of the last event of it, from 0, and the last subscription.
    pub within: Option<(usize, String)>,
}

impl FannedTo {
    /// Reads the stored form.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let entry = EntryId::parse(words.next()?)?;
        let within = match (words.next(), words.next()) {
            (Some(number), Some(subscription)) => {
                Some((number.parse().ok()?, subscription.to_owned()))
            }
            (None, None) => None,
            _ => return None,
        };
        Some(Self { entry, within })
    }

    /// Before all events of an entry.
    pub fn before(entry: EntryId) -> Self {
        Self {
            entry,
            within: Some((0, String::new())),
        }
    }

    /// The last entry that is surely done; perhaps none that is there.
    pub fn done(&self) -> EntryId {
        match self.within {
            None => self.entry,
            Some(_) => self.entry.before(),
        }
    }
}

impl fmt::Display for FannedTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.within {
            None => write!(f, "{}", self.entry),
            Some((number, subscription)) => write!(f, "{} {number} {subscription}", self.entry),
        }
    }
}

/// What a call of `fan_out.lua` did.
#[derive(Debug)]
pub(crate) enum Fanned {
    /// So many deliveries were queued; keys that hold something else than they should, a line each; and where the cursors are now.
    Queued {
        count: i64,
        damaged: String,
        cursors: Vec<String>,
    },
    /// Nothing was queued: these owners have other subscriptions by now.
    Stale(Vec<String>),
}

impl Store {
    /// Queues deliveries of a partition's subscriptions. `owners`: with the marks of their subscriptions.
    pub(crate) async fn fan_out(
        &self,
        partition: Partition,
        lane_concurrency: u32,
        owners: &[(String, String)],
        parts: &[FanOutPart],
    ) -> Result<Fanned, StoreError> {
        // Cursors go on, or outboxes could not be trimmed: those of other nodes too, where the subscriptions are the operator's.
        let is_full = self.memory_step(partition) == MemoryStep::Refuse;
        let mark = |(owner, _): &(String, String)| self.keys().webhooks_mark(partition, owner);
        let call = FanOut {
            partition,
            marks: owners.iter().map(mark).collect(),
            lane_concurrency,
            is_full,
            owners: Counted(owners),
            parts,
        };
        Ok(match self.outcome_on(Lane::Background, &call).await? {
            FanOutReply::Fanned {
                queued,
                damaged,
                cursors,
            } => Fanned::Queued {
                count: queued,
                damaged,
                cursors,
            },
            FanOutReply::Stale { owners } => Fanned::Stale(owners),
        })
    }

    /// The marks of the subscriptions of these owners; `None` for an owner without any, or whose mark has another type.
    pub async fn webhook_marks(
        &self,
        owners: &[String],
    ) -> Result<Vec<Option<String>>, StoreError> {
        let read = |owner: &String| {
            let partition = Owner::parse(owner).map_or(Partition::FIRST, |owner| owner.partition());
            command("GET", self.keys().webhooks_mark(partition, owner), NO_ARGS)
        };
        let commands: Vec<_> = owners.iter().map(read).collect();
        let replies = self.query_each(&commands).await?.into_iter();
        let mark = |reply: Result<_, _>| reply.ok().and_then(read_or_default);
        Ok(replies.map(mark).collect())
    }

    /// The records of an owner's subscriptions, in order of their ids: an empty one where there is none, and an error where the key
    /// holds something else.
    pub async fn webhooks_of_owner(
        &self,
        owner: &str,
    ) -> Result<Vec<(String, Result<Record, StoreError>)>, StoreError> {
        let partition = Owner::parse(owner).map_or(Partition::FIRST, |owner| owner.partition());
        let list = command("ZRANGE", self.keys().webhooks(partition, owner), (0, -1));
        let ids: Vec<String> = self.read(list).await?;
        let mut found = Vec::with_capacity(ids.len());
        for some in ids.chunks(RECORDS) {
            let read =
                |id: &String| command("HGETALL", self.keys().webhook(partition, id), NO_ARGS);
            let commands: Vec<_> = some.iter().map(read).collect();
            for (id, reply) in some.iter().zip(self.query_each(&commands).await?) {
                let fields = reply.and_then(read_reply::<BTreeMap<String, String>>);
                let record = fields.map(|fields| {
                    let pairs = fields.into_iter().flat_map(|(name, value)| [name, value]);
                    Record::from_pairs(pairs.collect())
                });
                found.push((id.clone(), record));
            }
        }
        Ok(found)
    }

    /// Up to where the events of each partition were given to its tenants' subscriptions, and to the operator's; `None` where the
    /// node that has it is out of reach.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub(crate) async fn fanned_to(
        &self,
        partitions: &[Partition],
    ) -> Result<Vec<[Option<Cursors>; 2]>, StoreError> {
        let all = |p: &Partition| command("HGETALL", self.keys().fanned(*p), NO_ARGS);
        let mut commands: Vec<_> = partitions.iter().map(all).collect();
        commands.push(all(&Partition::FIRST));
        let replies = self.query_reachable(&commands).await?;
        let fields = replies.into_iter().map(|reply| reply.map(read_or_default));
        let mut fields: Vec<Option<BTreeMap<String, String>>> = fields.collect();
        let of_system = fields.pop().flatten();
        let cursors = |(partition, own): (&Partition, &Option<BTreeMap<String, String>>)| {
            let system = of_system.as_ref();
            [
                own.as_ref().map(|own| Cursors::read("own", own)),
                system.map(|system| Cursors::read(&partition.to_string(), system)),
            ]
        };
        Ok(partitions.iter().zip(&fields).map(cursors).collect())
    }
}

/// Up to where the events of an outbox were given to subscriptions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cursors {
    /// Those of all tenants but these.
    pub main: Option<FannedTo>,
    /// Of tenants that are followed apart.
    pub apart: BTreeMap<String, FannedTo>,
}

impl Cursors {
    fn read(source: &str, fields: &BTreeMap<String, String>) -> Self {
        let prefix = format!("{source} ");
        let behind = fields.range(prefix.clone()..);
        let apart =
            behind.map_while(|(field, cursor)| Some((field.strip_prefix(&prefix)?, cursor)));
        let apart = apart
            .filter_map(|(tenant, cursor)| Some((tenant.to_owned(), FannedTo::parse(cursor)?)));
        Self {
            main: fields
                .get(source)
                .and_then(|cursor| FannedTo::parse(cursor)),
            apart: apart.collect(),
        }
    }

    /// The last entry that is surely done for all.
    pub fn done(&self) -> Option<EntryId> {
        let apart = self.apart.values().map(FannedTo::done);
        Some(apart.fold(self.main.as_ref()?.done(), EntryId::min))
    }
}
