//! The period of a budget: how it is requested, stored and returned.

use crate::domain::amount::Amount;
use crate::domain::budget::turn::Renewal;
use crate::domain::fields::object;
use crate::domain::moment::Moment;
use crate::domain::period::{Every, Schedule, Zone};
use crate::domain::record::RecordError;
use crate::domain::words::words;

words! {
    /// What a new period gets from the one before: what was neither spent nor owed there.
    RolloverPolicy: "SCREAMING_SNAKE_CASE" {
        /// Nothing is carried over.
        None,
        /// All of it, up to `carry_limit` of the period.
        CarryForward,
        /// All of it, up to what the period allocates.
        CapAtAllocated,
    }
}

object! {
    /// How a budget renews itself: at the start of each period, the old one is closed, and the new one gets `allocated` and what the
    /// rollover policy carries over.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct BudgetPeriod: Read + Serialize + Recorded + Optional {
        /// Length: an ISO 8601 duration of one component, from `PT1H` to `P10Y`.
        pub every: Every { field: "period_every" },
        /// Time zone, by its IANA name. Days and longer periods follow it.
        pub time_zone: Zone { field: "period_zone", default: Zone::UTC },
        /// Start of any period. Absent: 2024-01-01T00:00 in the time zone, so days begin at midnight, weeks on Monday, months on the
        /// first.
        pub anchor: Option<Moment> { field: "period_anchor_ms" },
        /// What each new period gets. Absent in a request: what is allocated now, without increases.
        pub allocated: Option<Amount> { field: "period_allocated" },
        /// The most that `CARRY_FORWARD` carries over. Absent: all that remains.
        pub carry_limit: Option<Amount>,
    }
    check |period, object| {
        if !Schedule::takes_anchor(period.anchor) {
            object.refuse_member("anchor", Schedule::ANCHOR_WANTED);
        }
    }
}

impl BudgetPeriod {
    /// When its periods begin.
    pub fn schedule(&self) -> Schedule {
        Schedule::new(self.every, &self.time_zone, self.anchor)
    }

    /// Start and end of the period that contains a time, in milliseconds since the epoch.
    ///
    /// # Errors
    /// [`RecordError`] for a bound that no time stands for.
    pub fn bounds(&self, now_ms: i64) -> Result<[Moment; 2], RecordError> {
        let bounds = self.schedule().bounds(now_ms);
        let bound = |ms| Moment::from_ms(ms).ok_or_else(|| RecordError::of("period_end"));
        Ok([bound(bounds.start_ms)?, bound(bounds.end_ms)?])
    }

    /// What each period gets under a rollover policy.
    pub fn renewal(&self, policy: RolloverPolicy) -> Renewal {
        let allocated = self.allocated.map_or(0, Amount::value);
        let carried_max = match policy {
            RolloverPolicy::None => 0,
            RolloverPolicy::CarryForward => self.carry_limit.map_or(i64::MAX, Amount::value),
            RolloverPolicy::CapAtAllocated => allocated,
        };
        Renewal {
            allocated,
            carried_max,
        }
    }
}
