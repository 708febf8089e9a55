//! `hasten_lanes.lua`: deliveries that are put off and need not wait.

use std::time::Duration;

use crate::domain::ids::Partition;
use crate::store::signature::signature;
use crate::store::{Lane, Store, StoreError, outcome};

/// By how much a lane with first attempts is put off at most: longer than any of them is.
const FIRST_ATTEMPT: Duration = Duration::from_secs(120);

/// By how much a retry is put off at most.
const RETRY: Duration = Duration::from_secs(66 * 60);

signature! {
    /// Has deliveries looked at now that need not wait. Of first attempts those that can only fail, since their subscription is not
    /// as it was; and those that are put off for longer than any is, since the clock went back. Of retries those that are further
    /// ahead than they were put off.
    ///
    /// next: how many of the later ones to pass over to look further; '' at the end.
    HASTEN_LANES: HastenLanes -> HastenLanesReply = "dispatcher/hasten_lanes", flags "allow-oom";
    names { partition: Partition }
    keys of partition { write lanes(); }
    builds { read delivery, webhook, window, tenant; write lane }
    args {
        /// Lanes that are due later are looked at.
        after_ms: i64,
        /// How many of these to pass over: many may be due at the same time.
        passed: i64,
        /// By how much a first attempt is put off at most.
        first_ms: Duration,
        /// By how much a retry is, where its record does not say.
        retry_ms: Duration,
        /// How the name of a lane of retries ends.
        retries: &'a str,
        delivery_prefix = delivery_prefix(),
        lane_prefix = lane_prefix(),
        window_prefix = window_prefix(),
        webhook_prefix = webhook_prefix(),
        tenant_prefix = tenant_prefix(),
    }
    replies { hastened: Hastened { next: Option<i64> } }
    writes "The times of lanes and of retries."
}

impl Store {
    /// Has deliveries of a partition looked at now that need not wait, among those of lanes that are due after `after_ms`.
    pub(crate) async fn hasten_lanes(
        &self,
        partition: Partition,
        after_ms: i64,
    ) -> Result<(), StoreError> {
        let mut passed = 0;
        loop {
            let call = HastenLanes {
                partition,
                after_ms,
                passed,
                first_ms: FIRST_ATTEMPT,
                retry_ms: RETRY,
                retries: ":retries",
            };
            match outcome(self.run(Lane::Background, &call).await)? {
                HastenLanesReply::Hastened { next: Some(next) } => passed = next,
                HastenLanesReply::Hastened { next: None } => return Ok(()),
            }
        }
    }
}
