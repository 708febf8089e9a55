//! `feed_replay.lua`: brings the deliveries of a replay into their lane, and ends the replay.

use crate::store::signature::signature;
use crate::store::{Lane, Lease, Store, StoreError, unless_fenced};

signature! {
    /// Queues the next deliveries of a replay in its lane, as many as have room there, and ends the replay when none is left and
    /// the lane is empty.
    ///
    /// more: whether more can be queued at once. hopeless: whether what waits in the lane can only fail.
    FEED_REPLAY: FeedReplay -> FeedReplayReply = "dispatcher/feed_replay", flags "allow-oom";
    keys of partition of fencing_token {
        read lease();
        write lanes(), open: open_deliveries(), behind_index: behind(), replays(), replay(replay_id), replay_events(replay_id);
    }
    builds { read webhook, tenant; write replay_lock, delivery, lane, window, deliveries }
    args {
        fencing_token: Lease,
        replay_id: &'a str,
        /// How many at most.
        most: usize,
        /// First attempts of a lane that may be in flight at once.
        lane_concurrency: u32,
        /// What was queued before is not attempted any more; '' while the clock is doubted.
        stale_before_ms: Option<i64>,
        replay_lock_prefix = replay_lock_prefix(),
        delivery_prefix = delivery_prefix(),
        lane_prefix = lane_prefix(),
        window_prefix = window_prefix(),
        deliveries_prefix = deliveries_prefix(),
        webhook_prefix = webhook_prefix(),
        tenant_prefix = tenant_prefix(),
    }
    replies { fenced, fed: Fed { queued: u64, more: bool, hopeless: bool }, ended: Ended }
    writes "On fed: deliveries, their lane and window, when the replay is looked at again. On ended the replay and its lock go."
}

impl Store {
    /// Brings some deliveries of a replay into their lane; `None` where another holds the lease.
    pub(crate) async fn feed_replay(
        &self,
        call: &FeedReplay<'_>,
    ) -> Result<Option<FeedReplayReply>, StoreError> {
        unless_fenced(self.run(Lane::Background, call).await)
    }
}
