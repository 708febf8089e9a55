//! Moves the deliveries of replays into their lanes, some of each at a time, and ends the replays.
//!
//! A script moves deliveries from the list of a replay into its lane, both or neither.

use tracing::{error, info};

use super::backfill::{Backfill, BackfillPass, PassTime};
use crate::dispatcher::due::partitions;
use crate::store::dispatcher::catch_up::{FeedReplay, FeedReplayReply};
use crate::store::{Keys, Lane, Lease, MemoryStep, StoreError, unless_fenced};

/// Replays of a partition that one pass looks at, those first that were not for longest.
const ROWS: usize = 20;

/// Wait of a replay that cannot continue, in milliseconds.
const PUT_OFF_MS: i64 = 60_000;

/// Calls for one replay in a pass.
const CALLS: usize = 5;

/// Deliveries that one call queues at most.
const DELIVERIES: usize = 50;

impl Backfill {
    /// Moves deliveries of replays into their lanes, in the partitions of `leases`; calls `lost` as of [`Backfill::run_once`].
    pub(super) async fn feed_replays(
        &mut self,
        leases: &[Lease],
        PassTime { now_ms, oldest_ms }: PassTime,
        mut lost: impl FnMut(Lease),
        pass: &mut BackfillPass,
    ) -> Result<(), StoreError> {
        let polled = self
            .store
            .poll(Keys::replays, &partitions(leases), ROWS)
            .await?;
        let replays = || polled.iter().flatten().flatten();
        pass.replays = replays().count();
        if pass.replays == 0 {
            return Ok(());
        }
        // Those further ahead are from before the clock went back.
        let is_due = |at_ms: i64| !(now_ms + 1..now_ms + 2 * PUT_OFF_MS).contains(&at_ms);
        for (lease, replays) in leases.iter().zip(&polled) {
            let due = replays.iter().flatten();
            for replay in due.filter(|replay| is_due(replay.at_ms)) {
                if self.failures.leave_out(lease.partition).await {
                    break;
                }
                match self.feed(*lease, &replay.member, oldest_ms, pass).await {
                    Ok(true) => {}
                    Ok(false) => {
                        lost(*lease);
                        break;
                    }
                    Err(unavailable @ StoreError::Unavailable(_)) => {
                        self.failures.note(lease.partition, unavailable);
                    }
                    Err(failure) => {
                        let id = &replay.member;
                        error!(replay.id = id, error = %failure, "replay `{id}` cannot continue: {failure}");
                        let key = self.store.keys().replays(lease.partition);
                        let put_off = self.store.postpone(key, id, now_ms + PUT_OFF_MS);
                        if let Err(failure) = put_off.await {
                            self.failures.note(lease.partition, failure);
                        }
                    }
                }
            }
        }
        self.metrics.replayed.inc_by(pass.replayed);
        self.metrics.ended.inc_by(pass.ended);
        Ok(())
    }

    /// Feeds one replay; `false` where another dispatcher holds the lease.
    async fn feed(
        &self,
        lease: Lease,
        replay_id: &str,
        stale_before_ms: Option<i64>,
        pass: &mut BackfillPass,
    ) -> Result<bool, StoreError> {
        // Work that would take memory waits.
        let is_full = self.store.memory_step(lease.partition) == MemoryStep::Refuse;
        let call = FeedReplay {
            fencing_token: lease,
            replay_id,
            most: if is_full { 0 } else { DELIVERIES },
            lane_concurrency: self.lane_concurrency,
            stale_before_ms,
        };
        for _ in 0..CALLS {
            match unless_fenced(self.store.run(Lane::Background, &call).await)? {
                None => return Ok(false),
                Some(FeedReplayReply::Ended) => {
                    info!(replay.id = replay_id, "replay `{replay_id}` has ended");
                    pass.ended += 1;
                    pass.replays = pass.replays.saturating_sub(1);
                    return Ok(true);
                }
                Some(FeedReplayReply::Fed {
                    queued,
                    more,
                    hopeless,
                }) => {
                    pass.replayed += queued;
                    if queued > 0 || hopeless {
                        self.queued.partition(lease.partition);
                    }
                    if !more {
                        return Ok(true);
                    }
                }
            }
        }
        pass.more = true;
        Ok(true)
    }
}
