//! `lapse_claims.lua`, `take_deliveries.lua` and `hasten_lanes.lua`: which deliveries are claimed, by whom and when.

use std::fmt;
use std::time::Duration;

use crate::domain::ids::Partition;
use crate::domain::log_entry::EntryId;
use crate::domain::record::Record;
use crate::domain::webhook::{DeliveryId, Owner, SubscriptionId};
use crate::driver::reply::{FromReply, Nested, Reply};
use crate::store::records::{NO_ARGS, command};
use crate::store::signature::signature;
use crate::store::{Day, Lane, Lease, Store, StoreError, outcome};

/// Place of an event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EventPlace {
    /// The partition of its log.
    pub partition: Partition,
    /// Owner of the log: a tenant, or a name between underscores.
    pub tenant: String,
    /// Day of the log.
    pub day: Day,
    /// The entry.
    pub entry: EntryId,
}

impl EventPlace {
    /// Reads the stored form.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        Some(Self {
            partition: Partition::parse(words.next()?)?,
            tenant: words.next()?.to_owned(),
            day: Day::parse(words.next()?)?,
            entry: EntryId::parse(words.next()?)?,
        })
    }
}

impl fmt::Display for EventPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            partition,
            tenant,
            day,
            entry,
        } = self;
        write!(f, "{partition} {tenant} {day} {entry}")
    }
}

/// A delivery that a dispatcher has claimed for one attempt.
#[derive(Debug, Clone)]
pub struct ClaimedDelivery {
    /// Its id.
    pub id: DeliveryId,
    /// Token of the claim, under which the outcome is recorded.
    pub token: String,
    /// The subscription.
    pub subscription: SubscriptionId,
    /// The lane that it is of.
    pub lane: String,
    /// Its owner.
    pub owner: Owner,
    /// The mark of the owner's subscriptions at the claim.
    pub mark: String,
    /// Place of the event; `None` where it cannot be read.
    pub place: Option<EventPlace>,
    /// Attempts that failed before.
    pub failures: u32,
    /// Attempts begun, this one included.
    pub attempts: i64,
    /// Time of the claim, in milliseconds.
    pub claimed_ms: i64,
}

impl FromReply for ClaimedDelivery {
    fn from_reply(reply: &mut Reply) -> Result<Self, StoreError> {
        Ok(Self {
            id: DeliveryId::from_stored(reply.read()?),
            token: reply.read()?,
            subscription: reply.read()?,
            lane: reply.read()?,
            owner: reply.read()?,
            mark: reply.read()?,
            place: EventPlace::parse(&reply.read::<String>()?),
            failures: u32::try_from(reply.read::<i64>()?).unwrap_or(u32::MAX),
            attempts: reply.read()?,
            claimed_ms: reply.read()?,
        })
    }
}

signature! {
    /// Ends claims that no dispatcher keeps any more: what was in flight is attempted again, before what follows it. Has lanes
    /// looked at whose first delivery is in flight while the others can only fail.
    ///
    /// damaged: keys of another type, and records of claimed deliveries that are gone, a line each with why. next: from where on to
    /// look further; '' at the end.
    LAPSE_CLAIMS: LapseClaims -> LapseClaimsReply = "dispatcher/lapse_claims", flags "allow-oom";
    keys of partition of fencing_token {
        read lease();
        write lanes(), claims(), claimed_lanes(), open: open_deliveries();
    }
    builds { read webhook(), tenant(); write delivery(), lane(), window() }
    args {
        fencing_token: Lease,
        /// To end those whose time was over by then, and look at no others.
        over_ms: Option<i64>,
        /// Dispatchers, blanks between: the claims of others end. '' where that is not known.
        alive: &'a str,
        /// The number of claims to pass over.
        after: i64,
    }
    replies { fenced, lapsed: Lapsed { count: i64, damaged: String, next: Option<i64> } }
    writes "On lapsed: deliveries, their claims, lanes and windows."
}

signature! {
    /// Claims deliveries that may be attempted now, and ends those that can only fail: for their subscription, their age or attempts
    /// that were lost.
    ///
    /// more: whether it did not look at everything. ended: reasons and ids of the deliveries that it ended: too_old;
    /// subscription_inactive; subscription_not_found; attempts_lost; damaged, whose records are gone or do not say where the events
    /// lie. damaged: keys of another type, a line each with why; each is of a lane that waits.
    TAKE_DELIVERIES: TakeDeliveries -> TakeDeliveriesReply = "dispatcher/take_deliveries", flags "allow-oom";
    keys of partition of fencing_token {
        read lease();
        write lanes(), claims(), claimed_lanes(), open: open_deliveries();
    }
    builds { read tenant(), webhooks_mark(); write delivery(), lane(), window(), webhook() }
    args {
        fencing_token: Lease,
        /// A name without `:`.
        dispatcher: &'a str,
        claim_ms: i64,
        /// How many at most.
        most: usize,
        /// First attempts of a lane that may be in flight at once.
        lane_concurrency: u32,
        /// Owners with much in flight, blanks between: each with a colon and how many of one subscription may be.
        busy_owners: &'a str,
        /// Deliveries queued before are no longer attempted; '' while the clock is in doubt.
        stale_before_ms: Option<i64>,
    }
    replies { fenced,
        taken: Taken {
            more: bool, ended: Nested<Vec<(String, String)>>, damaged: String, claims: Vec<Nested<ClaimedDelivery>>,
        },
    }
    writes "On taken: deliveries, their claims, lanes and windows; when the subscription was triggered last."
}

impl Store {
    /// The record of a subscription; empty where there is none.
    pub(crate) async fn webhook_record(&self, id: &SubscriptionId) -> Result<Record, StoreError> {
        let key = self.keys().webhook(id.partition(), id.as_str());
        self.read(command("HGETALL", key, NO_ARGS)).await
    }
}

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
    builds { read delivery(), webhook(), window(), tenant(); write lane() }
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
