//! What is to be queued of an outbox behind a cursor.
//!
//! A tenant that takes more than its share of a pass is followed apart from there: by a cursor of its own, past which the main
//! one leaves it out. So it holds up nobody, and its own events stay in order. Once its cursor has reached the main one, that
//! follows it again. So is a tenant whose list of subscriptions cannot be read: its cursor stays where it is meanwhile.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::events::{Happened, PointerOf, Wanted};
use super::subscriptions::{Hook, Hooks, Outbox, When};
use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::domain::tenant::SYSTEM;
use crate::store::dispatcher::fan_out::{Cursors, FannedTo, QueuedDelivery};

/// Deliveries that one call queues at most, each half a dozen commands.
pub(super) const DELIVERIES: usize = 25;

/// Deliveries of one outbox that one pass queues at most; and of these of one tenant.
pub(super) const PASS_DELIVERIES: usize = 500;
const SHARE: usize = PASS_DELIVERIES / 2;

/// Tenants of an outbox that one pass follows apart, those first that are furthest behind.
const APART: usize = 2;

/// Whose subscriptions get the events of an outbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    /// Those of its tenants.
    Own,
    /// Those of the operator.
    System,
}

impl Audience {
    /// Whose the cursor of a field in the partition `home` is, and of which outbox.
    pub fn of(field: &str, home: Partition) -> (Self, Partition) {
        let source = field.split(' ').next().unwrap_or_default();
        match Partition::parse(source) {
            Some(source) => (Self::System, source),
            None => (Self::Own, home),
        }
    }
}

/// A cursor of an outbox, and what it leaves out.
pub(super) struct Following {
    pub partition: Partition,
    pub audience: Audience,
    pub cursor: Option<FannedTo>,
    /// The tenant that it follows apart.
    tenant: Option<String>,
    /// The tenants that others follow apart.
    apart: BTreeSet<String>,
}

/// What is to be queued next of one outbox, and the cursor behind it.
pub(super) struct Chunk {
    pub read: Option<FannedTo>,
    /// `None` where nothing was looked at.
    pub next: Option<FannedTo>,
    /// Tenants that were left out, because others follow them apart.
    pub left_out: BTreeSet<String>,
    /// Tenants that are to be followed apart, from these places on.
    pub parted: Vec<(String, FannedTo)>,
    /// Whose subscriptions were looked at, and their marks.
    pub owners: Vec<(String, String)>,
    /// With the owner of each.
    pub deliveries: Vec<(String, QueuedDelivery)>,
}

impl Following {
    /// The cursors of an outbox that one pass follows. `waits`: whether the cursor of a tenant is left alone.
    pub fn of(
        partition: Partition,
        audience: Audience,
        cursors: Cursors,
        waits: impl Fn(&str) -> bool,
    ) -> Vec<Self> {
        let following = |cursor, tenant, apart| Self {
            partition,
            audience,
            cursor,
            tenant,
            apart,
        };
        let apart = cursors.apart.keys().cloned().collect();
        let mut all = vec![following(cursors.main, None, apart)];
        let mut apart: Vec<_> = cursors.apart.into_iter().collect();
        apart.retain(|(tenant, _)| !waits(tenant));
        apart.sort_by_key(|(_, cursor)| cursor.entry);
        let apart = apart.into_iter().take(APART);
        all.extend(
            apart.map(|(tenant, cursor)| following(Some(cursor), Some(tenant), BTreeSet::new())),
        );
        all
    }

    /// The field of the cursor.
    pub fn field(&self) -> String {
        let main = match self.audience {
            Audience::Own => "own".to_owned(),
            Audience::System => self.partition.to_string(),
        };
        match &self.tenant {
            None => main,
            Some(tenant) => format!("{main} {tenant}"),
        }
    }

    /// The partition of the subscriptions.
    pub fn home(&self) -> Partition {
        match self.audience {
            Audience::Own => self.partition,
            Audience::System => Partition::FIRST,
        }
    }

    pub fn is_apart(&self) -> bool {
        self.tenant.is_some()
    }

    /// From where it reads.
    pub fn from(&self) -> (Partition, Option<EntryId>) {
        (self.partition, self.cursor.as_ref().map(FannedTo::done))
    }

    /// What all these read, with what they want of it.
    pub fn reads(all: &[Self]) -> BTreeMap<(Partition, Option<EntryId>), Wanted> {
        let mut reads: BTreeMap<_, Wanted> = BTreeMap::new();
        for following in all {
            let wanted = match &following.tenant {
                Some(tenant) => Wanted::of(tenant),
                None => Wanted::all_but(following.apart.clone()),
            };
            match reads.entry(following.from()) {
                std::collections::btree_map::Entry::Vacant(place) => {
                    place.insert(wanted);
                }
                std::collections::btree_map::Entry::Occupied(mut place) => {
                    place.get_mut().add(wanted);
                }
            }
        }
        reads
    }

    /// Whose subscriptions get an event. What belongs to no tenant is for the operator alone.
    pub fn owner_of<'e>(&self, event: &'e Happened) -> Option<&'e str> {
        match self.audience {
            Audience::Own => Some(event.place.tenant.as_str()).filter(|tenant| *tenant != SYSTEM),
            Audience::System => Some(SYSTEM),
        }
    }

    /// The place before what was read, where that was read again from further back.
    fn goes_back_to(&self, outbox: &[PointerOf]) -> Option<FannedTo> {
        let (first, _) = outbox.first()?;
        let is_behind = *first > self.cursor.as_ref()?.done();
        (!is_behind).then(|| FannedTo::before(*first))
    }

    /// What is to be queued of an outbox, some at a time; and whether that is not all. `hooks`: of the owners.
    pub fn chunks(
        &self,
        outbox: &[PointerOf],
        hooks: &HashMap<&str, &Hooks>,
        lies: Outbox,
    ) -> (Vec<Chunk>, bool) {
        let is_unknown = |owner: &str| hooks.get(owner).is_some_and(|hooks| hooks.is_unknown);
        if self.tenant.as_deref().is_some_and(is_unknown) {
            // Its cursor waits.
            return (Vec::new(), false);
        }
        let mut chunks = Chunks::behind(self.cursor.clone());
        if let Some(back) = self.goes_back_to(outbox) {
            chunks.go_back(back);
        }
        let begin = chunks.chunk.read.clone();
        for (entry, events) in outbox {
            let resumed = begin.as_ref().filter(|begin| begin.entry == *entry);
            let done = resumed.and_then(|begin| begin.within.as_ref());
            for event in events.iter().flatten() {
                let tenant = event.place.tenant.as_str();
                let Some(owner) = self.owner_of(event) else {
                    continue;
                };
                if self.tenant.as_ref().is_some_and(|only| only != tenant) {
                    continue;
                }
                if self.apart.contains(tenant) || chunks.parted.contains(tenant) {
                    chunks.leave_out(tenant);
                    continue;
                }
                if is_unknown(owner) {
                    chunks.part(tenant);
                    continue;
                }
                let of_owner = hooks[owner];
                chunks.chunk.name(owner, &of_owner.mark);
                let when = When {
                    entry: *entry,
                    at_ms: event.at_ms,
                    outbox: lies,
                };
                for hook in of_owner.active.iter() {
                    let seen = (event.number, hook.id.to_string());
                    if done.is_some_and(|done| seen <= *done)
                        || !hook.gets(&event.seen(), when)
                        || !chunks.is_to_know(hook)
                    {
                        continue;
                    }
                    if chunks.count == PASS_DELIVERIES {
                        return (self.guarded(chunks.all), true);
                    }
                    let place = FannedTo {
                        entry: *entry,
                        within: Some(seen),
                    };
                    if !self.is_apart() && chunks.has_its_share(tenant) {
                        chunks.part(tenant);
                        break;
                    }
                    chunks.push(tenant, owner, event.delivery_to(hook), place);
                    if chunks.chunk.deliveries.is_empty() {
                        chunks.chunk.name(owner, &of_owner.mark);
                    }
                }
            }
            chunks.chunk.next = Some(FannedTo {
                entry: *entry,
                within: None,
            });
        }
        if self.is_apart() && chunks.chunk.next.is_none() {
            // Nothing is behind it: perhaps it has reached the main one.
            chunks.chunk.next = begin;
        }
        let is_cut = !chunks.parted.is_empty();
        chunks.all.push(chunks.chunk);
        (self.guarded(chunks.all), is_cut)
    }

    /// Lets each chunk count only while the tenants that are left out here are followed apart. Their events may not even have
    /// been read.
    fn guarded(&self, mut chunks: Vec<Chunk>) -> Vec<Chunk> {
        for chunk in chunks.iter_mut().filter(|_| !self.is_apart()) {
            let parted = &chunk.parted;
            let left_out = self
                .apart
                .iter()
                .filter(|tenant| !parted.iter().any(|(name, _)| name == *tenant));
            chunk.left_out.extend(left_out.cloned());
        }
        chunks
    }
}

/// What is to be queued, so far.
struct Chunks {
    all: Vec<Chunk>,
    chunk: Chunk,
    count: usize,
    of_tenant: BTreeMap<String, usize>,
    parted: BTreeSet<String>,
    /// Subscriptions whose records cannot be read.
    unreadable: BTreeSet<String>,
}

impl Chunks {
    fn behind(cursor: Option<FannedTo>) -> Self {
        Self {
            all: Vec::new(),
            chunk: Chunk::behind(cursor),
            count: 0,
            of_tenant: BTreeMap::new(),
            parted: BTreeSet::new(),
            unreadable: BTreeSet::new(),
        }
    }

    /// Whether a subscription is to know of an event that it gets. Of one whose record cannot be read only its place is kept, so
    /// one event says all.
    fn is_to_know(&mut self, hook: &Hook) -> bool {
        hook.epoch().is_some() || self.unreadable.insert(hook.id.to_string())
    }

    /// Moves the cursor back in a step of its own, so that what follows has its true place before it.
    fn go_back(&mut self, place: FannedTo) {
        self.chunk.next = Some(place.clone());
        let next = Chunk::behind(Some(place));
        self.all.push(std::mem::replace(&mut self.chunk, next));
    }

    fn has_its_share(&self, tenant: &str) -> bool {
        self.of_tenant
            .get(tenant)
            .is_some_and(|count| *count >= SHARE)
    }

    /// Leaves the rest of a tenant to a cursor of its own, which begins behind what is done.
    fn part(&mut self, tenant: &str) {
        let place = self.chunk.next.clone().or_else(|| self.chunk.read.clone());
        let place = place.unwrap_or(FannedTo {
            entry: EntryId::ZERO,
            within: None,
        });
        self.chunk.parted.push((tenant.to_owned(), place));
        self.parted.insert(tenant.to_owned());
    }

    fn leave_out(&mut self, tenant: &str) {
        // What parts it in the same step need not say so.
        if !self.chunk.parted.iter().any(|(parted, _)| parted == tenant) {
            self.chunk.left_out.insert(tenant.to_owned());
        }
    }

    /// Adds a delivery, up to which all is done then.
    fn push(&mut self, tenant: &str, owner: &str, delivery: QueuedDelivery, place: FannedTo) {
        self.count += 1;
        *self.of_tenant.entry(tenant.to_owned()).or_default() += 1;
        self.chunk.deliveries.push((owner.to_owned(), delivery));
        self.chunk.next = Some(place);
        if self.chunk.deliveries.len() == DELIVERIES {
            let next = Chunk::behind(self.chunk.next.clone());
            self.all.push(std::mem::replace(&mut self.chunk, next));
        }
    }
}

impl Chunk {
    fn behind(read: Option<FannedTo>) -> Self {
        Self {
            read,
            next: None,
            left_out: BTreeSet::new(),
            parted: Vec::new(),
            owners: Vec::new(),
            deliveries: Vec::new(),
        }
    }

    /// Notes an owner of whom it was looked at.
    fn name(&mut self, owner: &str, mark: &str) {
        let named = (owner.to_owned(), mark.to_owned());
        if !self.owners.contains(&named) {
            self.owners.push(named);
        }
    }
}
