//! `catch_up.lua` and `feed_replay.lua`: queue later what subscriptions missed that are behind, and the deliveries of replays.

use std::collections::BTreeMap;

use super::fan_out::OutboxPosition;
use crate::domain::ids::Partition;
use crate::store::records::{NO_ARGS, command};
use crate::store::signature::signature;
use crate::store::{Lease, OnFailure, Store, StoreError};

/// Most deliveries of a subscription that are open, and of an owner.
const OPEN_MAX: i64 = 1_000;
const OWNER_OPEN_MAX: i64 = 50_000;

const HOUR_MS: i64 = 3_600_000;

/// One delivery to be queued: its id and lane, and the place of the event; type of the event and trace.
pub(crate) type MissedDelivery = ((String, String, String), (String, String));

signature! {
    /// Queues events that a subscription missed while it was behind in an outbox, and moves its place there, both or neither. Where
    /// the place is not as the caller read it, or there is no room for all of them, nothing is queued.
    ///
    /// A delivery that exists already is passed over. When the place has reached the cursor of the outbox, the subscription has
    /// caught up. One that is not active forgets what it missed. skipped: how many events were too old; place: '' where it is not
    /// behind.
    CATCH_UP: CatchUp -> CatchUpReply = "dispatcher/catch_up", flags "allow-oom";
    names { partition: Partition }
    keys of partition {
        write fanned(), lanes(), open: open_deliveries(), behind_index: behind(), queued_deliveries();
        read webhooks_mark(owner), tenant(owner);
    }
    builds { write delivery(), lane(), window(), deliveries() }
    args {
        day,
        /// First attempts of a lane that may be in flight at once.
        lane_concurrency: u32,
        owner: &'a str,
        /// Of the owner's subscriptions, as the caller remembers them.
        mark: &'a str,
        subscription_id: &'a str,
        /// '' where it is not active.
        epoch: Option<i64>,
        /// The age at which what it missed is not for it any more; '' while the clock is doubted.
        stale_ms: Option<i64>,
        /// The field of the cursor of the outbox.
        source: &'a str,
        /// Its place there as it was read.
        read: &'a str,
        /// Its place to be.
        next: &'a str,
        /// Events between these that are too old, of the hour in which some are not.
        too_old: usize,
        /// Id, lane, place of the event, type of the event and trace of each.
        deliveries: &'a [MissedDelivery],
    }
    replies { clock, stale: Stale, caught_up: CaughtUp { queued: i64, skipped: i64, place: String } }
    writes "On caught_up: deliveries, their lanes; the window."
}

/// The window of a subscription that is behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BehindWindow {
    /// The owner of the subscription; '' where the window is gone.
    pub owner: String,
    /// How many more deliveries may be queued.
    pub room: i64,
    /// Whether half of its room is free.
    pub is_half_free: bool,
    /// The first hour, since 1970, of what it missed.
    pub first_hour: Option<i64>,
}

impl BehindWindow {
    /// Whether it missed something in an hour that was over at this time.
    pub fn has_before(&self, ms: i64) -> bool {
        self.first_hour
            .is_some_and(|hour| (hour + 1) * HOUR_MS <= ms)
    }
}

impl Store {
    /// The windows of subscriptions that are behind; `None` where the node is out of reach.
    ///
    /// # Errors
    /// [`StoreError`] when no node answers.
    pub(crate) async fn behind_windows(
        &self,
        subscriptions: &[(Partition, String)],
    ) -> Result<Vec<Option<BehindWindow>>, StoreError> {
        let window = |(partition, id): &(Partition, String)| {
            let fields = ["owner", "open", "missed"];
            command("HMGET", self.keys().window(*partition, id), &fields)
        };
        let windows = self.read_each(OnFailure::Skip, subscriptions.iter().map(window));
        let windows = windows.await?.into_iter();
        let windows: Vec<_> = windows.map(|fields| fields.ok().map(read_window)).collect();
        let open = |((partition, _), window): (&(Partition, String), &Option<_>)| {
            let owner = window
                .as_ref()
                .map_or("", |(owner, ..): &(String, _, _)| owner);
            command("HGET", self.keys().open_deliveries(*partition), owner)
        };
        let of_owners = subscriptions.iter().zip(&windows).map(open);
        let of_owners = self.read_each::<Option<i64>>(OnFailure::Skip, of_owners);
        let of_owners = of_owners.await?;
        let pairs = windows.into_iter().zip(of_owners);
        let windows = pairs.map(|(window, of_owner)| {
            let (owner, open, first_hour) = window?;
            let of_owner = of_owner.ok()?.unwrap_or(0);
            Some(BehindWindow {
                owner,
                room: (OPEN_MAX - open).min(OWNER_OPEN_MAX - of_owner),
                is_half_free: open < OPEN_MAX / 2,
                first_hour,
            })
        });
        Ok(windows.collect())
    }

    /// The places up to which a subscription has the events of outboxes in which it is behind, by the fields of their cursors. The one
    /// that is furthest behind comes first.
    pub(crate) async fn places_behind(
        &self,
        partition: Partition,
        id: &str,
    ) -> Result<Vec<(String, String)>, StoreError> {
        let key = self.keys().window(partition, id);
        let fields: BTreeMap<String, String> = self.read(command("HGETALL", key, NO_ARGS)).await?;
        let place = |(field, place): (String, String)| {
            Some((field.strip_prefix("behind ")?.to_owned(), place))
        };
        let mut places: Vec<_> = fields.into_iter().filter_map(place).collect();
        places.sort_by_key(|(_, place)| OutboxPosition::parse(place).map(|place| place.entry));
        Ok(places)
    }

    /// How many subscriptions of these partitions are behind, and how many of their deliveries are open.
    pub(crate) async fn count_behind(
        &self,
        partitions: &[Partition],
    ) -> Result<(i64, i64), StoreError> {
        let behind = |p: &Partition| command("ZCARD", self.keys().behind(*p), NO_ARGS);
        let open = |p: &Partition| command("HVALS", self.keys().open_deliveries(*p), NO_ARGS);
        let behind = self.read_each::<i64>(OnFailure::Skip, partitions.iter().map(behind));
        let behind = behind.await?.into_iter().flatten();
        let open = self.read_each::<Vec<i64>>(OnFailure::Skip, partitions.iter().map(open));
        let open = open.await?.into_iter().flatten().flatten();
        Ok((behind.sum(), open.sum()))
    }
}

/// Owner, open deliveries, and the first hour of what was missed.
fn read_window(fields: Vec<Option<String>>) -> (String, i64, Option<i64>) {
    let mut fields = fields.into_iter();
    let mut next = || fields.next().flatten().unwrap_or_default();
    let (owner, open, missed) = (next(), next(), next());
    let hours = missed
        .split(' ')
        .filter_map(|hour| hour.split_once(':')?.0.parse().ok());
    (owner, open.parse().unwrap_or(0), hours.min())
}

signature! {
    /// Queues the next deliveries of a replay in its lane, as many as have room there, and ends the replay when none is left and
    /// the lane is empty.
    ///
    /// more: whether more can be queued at once. hopeless: whether what waits in the lane can only fail.
    FEED_REPLAY: FeedReplay -> FeedReplayReply = "dispatcher/feed_replay", flags "allow-oom";
    keys of partition of fencing_token {
        read lease();
        write lanes(), open: open_deliveries(), behind_index: behind(), queued_deliveries(), replays(), replay(replay_id), replay_events(replay_id);
    }
    builds { read webhook(), tenant(); write replay_lock(), delivery(), lane(), window(), deliveries() }
    args {
        fencing_token: Lease,
        replay_id: &'a str,
        /// How many at most.
        most: usize,
        /// First attempts of a lane that may be in flight at once.
        lane_concurrency: u32,
        /// Deliveries queued before are no longer attempted; '' while the clock is in doubt.
        stale_before_ms: Option<i64>,
    }
    replies { fenced, fed: Fed { queued: u64, more: bool, hopeless: bool }, ended: Ended }
    writes "On fed: deliveries, their lane and window, when the replay is looked at again. On ended the replay and its lock go."
}
