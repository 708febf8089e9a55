//! Walks along a tenant's reservations: along the indexes of days, or along those of the active ones.

use super::{ReservationQuery, ReservationSort, read_row};
use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;
use crate::domain::reservation::GRACE_PERIOD_MS_DEFAULT;
use crate::ledger::Ledger;
use crate::ledger::get::{FIELDS, Reservation};
use crate::listing::{Entry, Position, Sort, Step, StepRange, Walk};
use crate::store::runtime::fields_of;
use crate::store::runtime::read::{List, ListReply};
use crate::store::runtime::target::RuntimeTarget;
use crate::store::target::Target as _;
use crate::store::{Day, ExtraRoundTrip, Lane, StoreError};

/// Days that one script call looks into.
pub(super) const STEP_DAYS: usize = 96;
/// How much longer than retention a reservation is usually kept: its own life, extensions included. Where one lives longer,
/// `extend.lua` keeps that with its tenant.
pub(super) const LIFE_DAYS: i64 = 42;
const DAY_MS: i64 = 86_400_000;
/// The longest time between the expiry and the due time.
const GRACE_MS_MAX: i64 = 60_000;
/// No index has a larger score.
const SCORE_MAX: i64 = i64::MAX >> 11;

/// An index of a tenant's reservations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReservationIndex {
    /// All, by creation: an index for each day.
    Created,
    /// The active ones, by due time (expiry and grace).
    Due,
    /// The same, for those of the usual grace in the order of their expiry.
    UsualGrace,
    /// The active ones of any other grace, by expiry.
    OtherGraces,
}

impl ReservationIndex {
    /// How far its scores are behind the position in a list, in milliseconds.
    fn grace_ms(self) -> i64 {
        match self {
            Self::UsualGrace => GRACE_PERIOD_MS_DEFAULT,
            Self::Created | Self::Due | Self::OtherGraces => 0,
        }
    }
}

/// A walk along the reservations of one tenant. A position is the time by which the index is ordered, in milliseconds, and an id,
/// which is empty where a day was passed.
#[derive(Clone)]
pub(super) struct ReservationWalk<'a> {
    pub ledger: &'a Ledger,
    pub caller: &'a Caller,
    pub tenant: &'a TenantId,
    pub query: &'a ReservationQuery,
    pub index: ReservationIndex,
    /// How many days the tenant's reservations live, as far as it is known.
    pub life_days: i64,
}

impl ReservationWalk<'_> {
    /// Smallest and largest score that are left.
    fn scores(&self, range: StepRange<'_>) -> (i64, i64) {
        let (filter, store) = (&self.query.filter, &self.ledger.store);
        let grace_ms = self.index.grace_ms();
        let expires = (
            filter.expires.from_ms.unwrap_or(0),
            filter.expires.to_ms.unwrap_or(SCORE_MAX),
        );
        let (low, high) = match self.index {
            ReservationIndex::Created => {
                let today = Day::of_ms(store.clock().now_ms());
                // Nothing is older than what retention keeps, so an earlier bound only costs empty days.
                let oldest = today.plus(-self.ledger.retention_days - self.life_days);
                // The estimate of the store's clock may lag: look a day further.
                let newest_ms = today.plus(2).start_ms() - 1;
                (
                    filter.created.from_ms.unwrap_or(0).max(oldest.start_ms()),
                    filter.created.to_ms.unwrap_or(newest_ms).min(newest_ms),
                )
            }
            ReservationIndex::Due => (expires.0, expires.1.saturating_add(GRACE_MS_MAX)),
            ReservationIndex::UsualGrace | ReservationIndex::OtherGraces => (
                expires.0.saturating_add(grace_ms),
                expires.1.saturating_add(grace_ms),
            ),
        };
        left((low, high), range, grace_ms)
    }

    /// Reads rows between two scores, in the indexes of these days.
    async fn read(
        &self,
        range: StepRange<'_>,
        (low, high): (i64, i64),
        days: &[Day],
    ) -> Result<ListReply, StoreError> {
        let store = &self.ledger.store;
        let (keys, tenant) = (
            store.keys().of(self.tenant.partition()),
            self.tenant.as_str(),
        );
        let call = List {
            caller: self.caller.into(),
            indexes: match self.index {
                ReservationIndex::Created => {
                    let key = |day: &Day| keys.reservations(tenant, *day);
                    days.iter().map(key).collect()
                }
                ReservationIndex::Due | ReservationIndex::UsualGrace => vec![keys.due(tenant)],
                ReservationIndex::OtherGraces => vec![keys.other_graces(tenant)],
            },
            tenant: self.tenant,
            direction: if range.descending { "desc" } else { "asc" },
            rows: range.rows,
            low,
            high,
            after_id: range.after_id(),
            record_prefix: keys.reservation(""),
            names: &FIELDS,
        };
        RuntimeTarget::default().named(store.run(Lane::Background, &call).await)
    }

    /// The days between the scores that are left, in walking order; none for an index that is not by day.
    fn days(&self, range: StepRange<'_>) -> Vec<Day> {
        match self.index {
            ReservationIndex::Created => days_between(self.scores(range), range),
            _ => Vec::new(),
        }
    }
}

/// What is left between two scores, which are `ahead` of the positions in a list.
pub(super) fn left((low, high): (i64, i64), range: StepRange<'_>, ahead: i64) -> (i64, i64) {
    let after = range.after.and_then(Position::number);
    match (after.map(|at| at.saturating_add(ahead)), range.descending) {
        (None, _) => (low, high),
        (Some(after), true) => (low, after),
        (Some(after), false) => (after, high),
    }
}

/// The days between two times in milliseconds, in walking order.
pub(super) fn days_between((low, high): (i64, i64), range: StepRange<'_>) -> Vec<Day> {
    let mut days: Vec<_> = Day::between(low, high).collect();
    if range.descending {
        days.reverse();
    }
    days
}

/// What a step along days found. `complete`: whether these days have no more; then `next_day` is the next one.
pub(super) fn step_of<T>(
    entries: Vec<Entry<T>>,
    complete: bool,
    next_day: Option<Day>,
    range: StepRange<'_>,
) -> Step<T> {
    let next_day = next_day.filter(|_| complete);
    let next_ms = next_day.map(|day| match range.descending {
        true => day.plus(1).start_ms() - 1,
        false => day.start_ms(),
    });
    Step {
        reached: next_ms.map(|at_ms| Position::new(at_ms, "")),
        ..Step::new(entries, complete && next_day.is_none())
    }
}

impl Walk for ReservationWalk<'_> {
    type Row = Reservation;
    type Error = StoreError;
    /// Rows that one script call examines, so that it stays below a millisecond: a page of 100, and one more to know whether another
    /// follows.
    const ROWS: usize = 101;
    /// Fewer, so that other requests run between the steps.
    const SORT_ROWS: usize = 30;

    fn is_filtered(&self) -> bool {
        self.index != ReservationIndex::Created || self.query.filter.leaves_out()
    }

    async fn step(&mut self, range: StepRange<'_>) -> Result<Step<Reservation>, StoreError> {
        if !range.is_first {
            self.ledger.store.extra_round_trip(ExtraRoundTrip::Paging);
        }
        let (reply, next_day) = loop {
            let mut days = self.days(range);
            days.truncate(STEP_DAYS);
            let reply = self.read(range, self.scores(range), &days).await?;
            let ListReply::Listed {
                longest_life_ms, ..
            } = &reply;
            let life_days = longest_life_ms.map_or(0, |life_ms| life_ms / DAY_MS + 2);
            self.life_days = self.life_days.max(life_days);
            let all_days = self.days(range);
            if all_days.first() == days.first() {
                break (reply, all_days.get(days.len()).copied());
            }
            // The days of a longer life than usual come first.
            self.ledger.store.extra_round_trip(ExtraRoundTrip::Paging);
        };
        let ListReply::Listed {
            now_ms,
            scope_filter,
            complete,
            index_id_score_fields: found,
            ..
        } = reply;
        let (index, filter, grace_ms) = (self.index, &self.query.filter, self.index.grace_ms());
        let entries = found.into_iter().map(|((_, id, score), fields)| {
            let at_ms = score.saturating_sub(grace_ms);
            let row = read_row(&id, fields_of(&FIELDS, fields.0).as_ref(), now_ms);
            let row = row.filter(|row| {
                // Those of other graces are in an index of their own.
                (index != ReservationIndex::UsualGrace || row.expires_at_ms == at_ms)
                    && scope_filter.admits(row.scope_path.as_str())
                    && filter.matches(row)
            });
            Entry {
                position: Position::new(at_ms, id),
                row,
            }
        });
        Ok(step_of(entries.collect(), complete, next_day, range))
    }
}

/// A walk along the active reservations in the order of their expiry: along the due times of those with the usual grace, and along
/// the expiries of all others.
pub(super) struct ExpiryWalk<'a> {
    sides: [Side<'a>; 2],
    sort: Sort<ReservationSort>,
    /// What was read, and comes behind what the other index may have.
    waiting: Vec<Entry<Reservation>>,
}

/// The walk along one of the indexes, and how far it has come.
struct Side<'a> {
    walk: ReservationWalk<'a>,
    reached: Option<Position>,
    complete: bool,
}

impl<'a> ExpiryWalk<'a> {
    pub fn new(walk: ReservationWalk<'a>) -> Self {
        let sort = walk.query.sort;
        let along = |index| Side {
            walk: ReservationWalk {
                index,
                ..walk.clone()
            },
            reached: None,
            complete: false,
        };
        Self {
            sides: [ReservationIndex::UsualGrace, ReservationIndex::OtherGraces].map(along),
            sort,
            waiting: Vec::new(),
        }
    }

    /// The side that has come least far, of those that are not complete.
    fn furthest_behind(&mut self) -> Option<&mut Side<'a>> {
        let sort = self.sort;
        let left = self.sides.iter_mut().filter(|side| !side.complete);
        left.min_by(|a, b| match (&a.reached, &b.reached) {
            (Some(a), Some(b)) => sort.compare(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        })
    }
}

impl Walk for ExpiryWalk<'_> {
    type Row = Reservation;
    type Error = StoreError;
    const ROWS: usize = ReservationWalk::ROWS;

    async fn step(&mut self, range: StepRange<'_>) -> Result<Step<Reservation>, StoreError> {
        let mut found = Vec::new();
        if let Some(side) = self.furthest_behind() {
            let after = side.reached.clone();
            let range = StepRange {
                after: after.as_ref().or(range.after),
                ..range
            };
            let step = side.walk.step(range).await?;
            side.complete = step.complete;
            let last = step.entries.last().map(|entry| entry.position.clone());
            side.reached = last.or(after);
            found = step.entries;
        }
        let sort = self.sort;
        self.waiting.extend(found);
        self.waiting
            .sort_by(|a, b| sort.compare(&a.position, &b.position));
        let (complete, certain) = match self.furthest_behind() {
            None => (true, self.waiting.len()),
            Some(Side { reached: None, .. }) => (false, 0),
            Some(Side {
                reached: Some(reached),
                ..
            }) => {
                let reached = reached.clone();
                let is_certain = |entry: &Entry<_>| sort.compare(&entry.position, &reached).is_le();
                (false, self.waiting.partition_point(is_certain))
            }
        };
        let entries = self.waiting.drain(..certain).collect();
        Ok(Step::new(entries, complete))
    }
}
