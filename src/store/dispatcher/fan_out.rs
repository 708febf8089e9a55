//! `fan_out.lua`: queues deliveries; and what it needs to know: cursors, marks and subscriptions.

use std::collections::BTreeMap;
use std::fmt;

use redis::Value;

use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::domain::record::Record;
use crate::domain::webhook::Owner;
use crate::store::records::{NO_ARGS, command, read_or_default, read_reply};
use crate::store::signature::{Counted, signature};
use crate::store::{Lane, MemoryStep, OnFailure, Store, StoreError, outcome};

/// Records that are read at once.
const RECORDS: usize = 100;

/// A part of what `fan_out.lua` queues: the field of the cursor of an outbox, the cursor as it was read, and after; deliveries.
pub(crate) type FanOutPart = ((String, String, String), Counted<Vec<QueuedDelivery>>);

/// One delivery to be queued: number of the owner, subscription and its epoch, `None` where its record cannot be read; id, lane and
/// place of the event; type of the event and trace. Without a lane, the subscription falls behind.
pub(crate) type QueuedDelivery = (
    (usize, String, Option<i64>),
    (String, String, String),
    (String, String),
);

/// The cursors of an outbox for its tenants' subscriptions and for the operator's. The outer `Option` is `None` where the node is out
/// of reach, the inner one where there is no cursor yet.
pub(crate) type CursorsOfOutbox = [Option<Option<OutboxPosition>>; 2];

signature! {
    /// Queues the deliveries of some events of outboxes, and moves the cursors of these, both or neither. Where a cursor is not as
    /// the caller read it, another has followed that outbox meanwhile. A caller that caches an owner's subscriptions proves by their mark
    /// that these are still the same; if they are not, nothing is written.
    ///
    /// Where a subscription was behind and has stopped being active since, the call only removes its places, and is repeated: there may
    /// be a place for each outbox.
    ///
    /// A delivery that exists already is skipped. Where a subscription or its owner has as many open as may be, or Redis is full,
    /// the subscription falls behind: only the place is kept from which on its events are queued later. So does one without an epoch,
    /// whose record cannot be read, and one without a lane, whose tenant has had its share of the pass. queued: how many were queued.
    FAN_OUT: FanOut -> FanOutReply = "dispatcher/fan_out", flags "allow-oom";
    names { partition: Partition }
    keys of partition { write fanned(), lanes(), open: open_deliveries(), behind_index: behind(), queued_deliveries(); }
    each { read marks: webhooks_mark }
    builds { read tenant(); write delivery(), lane(), window(), deliveries() }
    args {
        day,
        /// First attempts of a lane that may be in flight at once.
        lane_concurrency: u32,
        /// Whether Redis has no memory for deliveries.
        is_full: bool,
        /// Owners and the marks of their subscriptions, in the order of the keys.
        owners: Counted<&'a [(String, String)]>,
        /// In order: the field of the cursor; the cursor as it was read or ''; the cursor to be; a number of places, and in these for
        /// each delivery the number of its owner, from 1; its subscription and that one's epoch; its id, lane or '', place of the
        /// event, type of the event and trace.
        parts: &'a [FanOutPart],
    }
    replies {
        clock, stale: Stale { owners: Vec<String> }, forgot: Forgot, fanned: Fanned { queued: i64, damaged: String, cursors: Vec<String> },
    }
    writes "On forgot: a window. On fanned: deliveries, their lanes and windows, the cursors."
}

/// A position in an outbox: after a whole entry, or in the middle of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxPosition {
    /// The entry.
    pub entry: EntryId,
    /// In the middle of it: the number of the last event that is done, from 0, and the last subscription.
    pub within: Option<(usize, String)>,
}

impl OutboxPosition {
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

    /// After all events of an entry.
    pub fn after(entry: EntryId) -> Self {
        Self {
            entry,
            within: None,
        }
    }

    /// The last entry that is surely done; it need not exist.
    pub fn done(&self) -> EntryId {
        match self.within {
            None => self.entry,
            Some(_) => self.entry.before(),
        }
    }
}

impl fmt::Display for OutboxPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.within {
            None => write!(f, "{}", self.entry),
            Some((number, subscription)) => write!(f, "{} {number} {subscription}", self.entry),
        }
    }
}

impl Store {
    /// Queues deliveries of a partition's subscriptions. `owners`: with the marks of their subscriptions.
    pub(crate) async fn fan_out(
        &self,
        partition: Partition,
        lane_concurrency: u32,
        owners: &[(String, String)],
        parts: &[FanOutPart],
    ) -> Result<FanOutReply, StoreError> {
        // Cursors must advance, or outboxes could not be trimmed: for operator subscriptions those of other nodes too.
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
        outcome(self.run(Lane::Background, &call).await)
    }

    /// The marks of the subscriptions of these owners; `None` for an owner without any, or whose mark has another type.
    pub async fn webhook_marks(
        &self,
        owners: &[String],
    ) -> Result<Vec<Option<String>>, StoreError> {
        let read = |owner: &String| {
            let mark = self.keys().webhooks_mark(home(owner), owner);
            command("GET", mark, NO_ARGS)
        };
        let marks = self.read_each(OnFailure::Fail, owners.iter().map(read));
        let mark = |mark: Result<_, StoreError>| match mark {
            Err(error) if error.is_wrong_type() => Ok(None),
            mark => mark,
        };
        marks.await?.into_iter().map(mark).collect()
    }

    /// The records of an owner's subscriptions, in order of their ids: an empty one where there is none, and an error where the key
    /// holds something else.
    pub async fn webhooks_of_owner(
        &self,
        owner: &str,
    ) -> Result<Vec<(String, Result<Record, StoreError>)>, StoreError> {
        let partition = home(owner);
        let list = command("ZRANGE", self.keys().webhooks(partition, owner), (0, -1));
        let ids: Vec<String> = self.read(list).await?;
        let mut found = Vec::with_capacity(ids.len());
        for some in ids.chunks(RECORDS) {
            let read =
                |id: &String| command("HGETALL", self.keys().webhook(partition, id), NO_ARGS);
            let commands: Vec<_> = some.iter().map(read).collect();
            let replies = self.send_each(&commands, OnFailure::Fail).await?;
            let records = replies.into_iter().map(|reply| read_reply(reply?));
            found.extend(some.iter().cloned().zip(records));
        }
        Ok(found)
    }

    /// The cursors of the fan-out in the outbox of each partition.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub(crate) async fn fan_out_cursors(
        &self,
        partitions: &[Partition],
    ) -> Result<Vec<CursorsOfOutbox>, StoreError> {
        let own = |p: &Partition| command("HGET", self.keys().fanned(*p), "own");
        let mut commands: Vec<_> = partitions.iter().map(own).collect();
        let of_system = self.keys().fanned(Partition::FIRST);
        commands.push(command("HGETALL", of_system, NO_ARGS));
        let mut replies = self.send_each(&commands, OnFailure::Skip).await?;
        let of_system = replies.pop().and_then(Result::ok);
        let of_system: Option<BTreeMap<String, String>> = of_system.map(read_or_default);
        let parse = |cursor: &String| OutboxPosition::parse(cursor);
        let cursors = |(partition, own): (&Partition, Result<Value, StoreError>)| {
            let own = own.ok().map(read_or_default::<Option<String>>);
            let field = partition.to_string();
            let system = of_system.as_ref();
            [
                own.map(|own| own.as_ref().and_then(parse)),
                system.map(|cursors| cursors.get(&field).and_then(parse)),
            ]
        };
        Ok(partitions.iter().zip(replies).map(cursors).collect())
    }
}

signature! {
    /// Gives subscriptions that do not say since when they are active the present place of their outbox, and their owner a mark of them.
    ADOPT_WEBHOOKS: AdoptWebhooks -> AdoptWebhooksReply = "dispatcher/adopt_webhooks", flags "allow-oom";
    names { partition: Partition }
    keys of partition {
        read outbox(), webhooks(owner);
        write webhooks_mark(owner), watch(owner), thresholds(), tenant_key: tenant(owner);
    }
    builds { write webhook() }
    args {
        owner: &'a str,
        /// Each with what it watches, blanks between.
        subscriptions: &'a [(String, String)],
    }
    replies { adopted: Adopted { mark: String } }
    writes "On adopted: the subscriptions, what they watch, the mark."
}

/// Subscriptions that one call adopts.
const SOME: usize = 50;

impl Store {
    /// The key of the list of an owner's subscriptions.
    pub(crate) fn webhooks_key(&self, owner: &str) -> String {
        self.keys().webhooks(home(owner), owner)
    }

    /// Whether these owners have subscriptions at all; perhaps, where their list has another type.
    pub(crate) async fn have_webhooks(&self, owners: &[String]) -> Result<Vec<bool>, StoreError> {
        let count = |owner: &String| command("ZCARD", self.webhooks_key(owner), NO_ARGS);
        let counts = self.read_each::<i64>(OnFailure::Fail, owners.iter().map(count));
        let has_some = |count: Result<i64, _>| count.map_or(true, |count| count > 0);
        Ok(counts.await?.into_iter().map(has_some).collect())
    }

    /// Lets subscriptions of an owner, with what they watch, count from now on; returns the owner's mark.
    pub(crate) async fn adopt_webhooks(
        &self,
        owner: &str,
        subscriptions: &[(String, String)],
    ) -> Result<String, StoreError> {
        let mut mark = String::new();
        // Without any, too: the owner may lack a mark alone.
        let mut rest = Some(subscriptions);
        while let Some(subscriptions) = rest {
            let (some, others) = subscriptions.split_at(subscriptions.len().min(SOME));
            let call = AdoptWebhooks {
                partition: home(owner),
                owner,
                subscriptions: some,
            };
            let AdoptWebhooksReply::Adopted { mark: renewed } =
                outcome(self.run(Lane::Background, &call).await)?;
            mark = renewed;
            rest = Some(others).filter(|others| !others.is_empty());
        }
        Ok(mark)
    }
}

/// The partition of an owner's subscriptions.
fn home(owner: &str) -> Partition {
    Owner::parse(owner).map_or(Partition::FIRST, |owner| owner.partition())
}
