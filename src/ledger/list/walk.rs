//! Walks along a tenant's reservations: along the indexes of days, or along the due times of the active ones.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use super::{ReservationQuery, read_row};
use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;
use crate::domain::reservation::{GRACE_PERIOD_MS_DEFAULT, Status};
use crate::ledger::Ledger;
use crate::ledger::get::{FIELDS, Reservation};
use crate::listing::{Entry, GATHER_ROWS, Position, Step, Walk};
use crate::store::runtime::fields_of;
use crate::store::runtime::read::{List, ListReply};
use crate::store::runtime::target::RuntimeTarget;
use crate::store::target::Target as _;
use crate::store::{Day, ExtraRoundTrip, Lane, StoreError};

/// Rows that one script call looks at, so that it stays below a millisecond: a page of 100, and one more to know whether another
/// follows.
const STEP_ROWS: usize = 101;
/// Days that one script call looks into.
const STEP_DAYS: usize = 96;
/// How much longer than retention a reservation is usually kept: its own life, extensions included. Where one lives longer,
/// `extend.lua` keeps that with its tenant.
const LIFE_DAYS: i64 = 42;
const DAY_MS: i64 = 86_400_000;
/// How far a due time may lie behind the expiry, in milliseconds.
const GRACES_MS: RangeInclusive<i64> = 0..=60_000;
/// No index has a larger score.
const SCORE_MAX: i64 = i64::MAX >> 11;

/// A walk along the reservations of one tenant. The position of an entry is its score in the index, and its id.
pub(super) struct ReservationWalk<'a> {
    ledger: &'a Ledger,
    caller: &'a Caller,
    tenant: &'a TenantId,
    query: &'a ReservationQuery,
    /// Those that are left, in walking order.
    indexes: VecDeque<ReservationIndex>,
    /// Smallest and largest score that are left, in milliseconds.
    scores: (i64, i64),
    after_id: Option<String>,
    /// Rows of the next step.
    rows: usize,
    /// Rows of the steps behind it.
    further_rows: usize,
    has_begun: bool,
    look_back: Option<LookBack>,
}

/// An index of a tenant's reservations.
#[derive(Clone, Copy)]
pub(super) enum ReservationIndex {
    /// The reservations of one day, by creation.
    Created(Day),
    /// The active reservations, by due time: expiry and grace.
    Due,
    /// The active reservations of another grace than the usual, by expiry.
    OtherGraces,
}

impl ReservationIndex {
    /// How far its scores lie behind the expiry of a reservation of the usual grace, or of another one, in milliseconds.
    fn grace_ms(self) -> i64 {
        match self {
            Self::Due => GRACE_PERIOD_MS_DEFAULT,
            Self::Created(_) | Self::OtherGraces => 0,
        }
    }

    /// The position of an entry in the order of expiry.
    pub fn expiry(self, entry: Position) -> Position {
        let score = entry.number().unwrap_or_default();
        Position::new(score.saturating_sub(self.grace_ms()), entry.id)
    }
}

/// How far a walk along the days looks back, until it is known how long the tenant's reservations live.
struct LookBack {
    /// Where the walk begins or ends by what it knows so far.
    low: i64,
    /// Reservations that ended before this time are gone.
    kept_from: Day,
    /// The bound of the query.
    from_ms: Option<i64>,
}

impl LookBack {
    fn low(&self, life_days: i64) -> i64 {
        // Nothing is older than what retention keeps, so an earlier bound only costs empty days.
        let oldest = self.kept_from.plus(-life_days).start_ms();
        self.from_ms.unwrap_or(oldest).max(oldest)
    }
}

impl<'a> ReservationWalk<'a> {
    /// Along no index yet.
    pub fn new(
        ledger: &'a Ledger,
        caller: &'a Caller,
        tenant: &'a TenantId,
        query: &'a ReservationQuery,
    ) -> Self {
        Self {
            ledger,
            caller,
            tenant,
            query,
            indexes: VecDeque::new(),
            scores: (0, SCORE_MAX),
            after_id: None,
            rows: STEP_ROWS,
            further_rows: STEP_ROWS,
            has_begun: false,
            look_back: None,
        }
    }

    /// Starts in the order of creation, after the query's position.
    pub fn start_by_creation(&mut self) {
        self.start_at_days();
        self.rows = self
            .query
            .first_step(self.query.filter.leaves_out(), STEP_ROWS);
        let after = self.query.after.as_ref();
        let Some((score, after)) = after.and_then(|after| Some((after.number()?, after))) else {
            return;
        };
        self.after_id = Some(after.id.clone());
        match self.query.sort.descending {
            true => self.scores.1 = self.scores.1.min(score),
            false => {
                self.scores.0 = score;
                self.look_back = None;
            }
        }
        self.indexes = self.days();
    }

    /// Starts where the fewest rows are visited, in whatever order.
    pub fn start_anywhere(&mut self) {
        self.further_rows = GATHER_ROWS;
        match self.query.filter.status {
            Some(Status::Active) => self.start_at(ReservationIndex::Due, &GRACES_MS),
            _ => self.start_at_days(),
        }
    }

    /// Starts in the order of expiry, after the query's position.
    pub fn start_by_expiry(&mut self, index: ReservationIndex) {
        let grace_ms = index.grace_ms();
        self.start_at(index, &(grace_ms..=grace_ms));
        let after = self.query.after.as_ref();
        let after = after.and_then(|after| Some((after.number()?.saturating_add(grace_ms), after)));
        if let Some((score, after)) = after {
            match self.query.sort.descending {
                true => self.scores.1 = score,
                false => self.scores.0 = score,
            }
            self.after_id = Some(after.id.clone());
        }
        // The page reads another index as well, and that first.
        self.has_begun = matches!(index, ReservationIndex::OtherGraces);
    }

    fn start_at_days(&mut self) {
        let (ledger, created) = (self.ledger, self.query.filter.created);
        let today = Day::of_ms(ledger.store.clock().now_ms());
        let mut look_back = LookBack {
            low: 0,
            kept_from: today.plus(-ledger.retention_days),
            from_ms: created.from_ms,
        };
        look_back.low = look_back.low(LIFE_DAYS);
        // The estimate of the store's clock may lag: look a day further.
        let newest = today.plus(2).start_ms() - 1;
        self.scores = (look_back.low, created.to_ms.unwrap_or(newest).min(newest));
        self.look_back = Some(look_back);
        self.indexes = self.days();
    }

    /// Along active reservations that expire when the filter says. `graces`: how far their scores lie behind the expiry.
    fn start_at(&mut self, index: ReservationIndex, graces: &RangeInclusive<i64>) {
        let expires = self.query.filter.expires;
        let (low, high) = (
            expires.from_ms.unwrap_or(0),
            expires.to_ms.unwrap_or(SCORE_MAX),
        );
        self.scores = (
            low.saturating_add(*graces.start()),
            high.saturating_add(*graces.end()),
        );
        self.indexes = VecDeque::from([index]);
    }

    /// The days between the scores, in walking order.
    fn days(&self) -> VecDeque<ReservationIndex> {
        let (low, high) = self.scores;
        days(low, high, self.query.sort.descending)
    }

    /// Reads up to a number of rows, in up to a number of the indexes.
    async fn read(&mut self, rows: usize, indexes: usize) -> Result<ListReply, StoreError> {
        let store = &self.ledger.store;
        if std::mem::replace(&mut self.has_begun, true) {
            store.extra_round_trip(ExtraRoundTrip::Paging);
        }
        let keys = store.keys().of(self.tenant.partition());
        let key = |index: &ReservationIndex| match index {
            ReservationIndex::Created(day) => keys.reservations(self.tenant.as_str(), *day),
            ReservationIndex::Due => keys.due(self.tenant.as_str()),
            ReservationIndex::OtherGraces => keys.other_graces(self.tenant.as_str()),
        };
        let call = List {
            caller: self.caller.into(),
            indexes: self.indexes.iter().take(indexes).map(key).collect(),
            tenant: self.tenant,
            direction: match self.query.sort.descending {
                true => "desc",
                false => "asc",
            },
            rows,
            low: self.scores.0,
            high: self.scores.1,
            after_id: self.after_id.as_deref(),
            names: &FIELDS,
        };
        RuntimeTarget::default().named(store.run(Lane::Background, &call).await)
    }

    /// Adds the days that hold reservations of a longer life than usual. Whether the walk must begin anew, because these
    /// days come first.
    fn look_further_back(&mut self, longest_life_ms: Option<i64>) -> bool {
        let (Some(back), Some(life_ms)) = (self.look_back.take(), longest_life_ms) else {
            return false;
        };
        let low = back.low(LIFE_DAYS.max(life_ms / DAY_MS + 2));
        if low >= back.low || self.scores.1 < low {
            return false;
        }
        let descending = self.query.sort.descending;
        let older = days(low, self.scores.1.min(back.low - 1), descending);
        self.scores.0 = low;
        match descending {
            true => self.indexes.extend(older),
            false => {
                let newer = std::mem::replace(&mut self.indexes, older);
                self.indexes.extend(newer);
            }
        }
        !descending
    }

    /// Continues after the last row read, in up to a number of the indexes; `None`: they hold no more.
    fn advance(&mut self, last: Option<&(i64, String, i64)>, walked: usize) {
        let Some((index, id, score)) = last else {
            self.indexes.drain(..walked);
            if walked > 0 {
                self.after_id = None;
            }
            return;
        };
        let before = usize::try_from(index - 1).unwrap_or(0);
        self.indexes.drain(..before.min(walked - 1));
        self.after_id = Some(id.clone());
        match self.query.sort.descending {
            true => self.scores.1 = *score,
            false => self.scores.0 = *score,
        }
    }
}

impl Walk for ReservationWalk<'_> {
    type Row = Reservation;
    type Error = StoreError;

    async fn step(&mut self) -> Result<Step<Reservation>, StoreError> {
        let rows = std::mem::replace(&mut self.rows, self.further_rows);
        let (now_ms, scope_filter, found) = loop {
            let walked = self.indexes.len().min(STEP_DAYS);
            let ListReply::Listed {
                now_ms,
                scope_filter,
                longest_life_ms,
                complete,
                index_id_score_fields: found,
            } = self.read(rows, walked).await?;
            if !self.look_further_back(longest_life_ms) {
                let last = found.last().filter(|_| !complete);
                self.advance(last.map(|(row, _)| row), walked);
                break (now_ms, scope_filter, found);
            }
        };
        let filter = &self.query.filter;
        let is_listed =
            |row: &Reservation| scope_filter.admits(row.scope_path.as_str()) && filter.matches(row);
        let entries = found.into_iter().map(|((_, id, score), fields)| {
            let row = read_row(&id, fields_of(&FIELDS, fields.0).as_ref(), now_ms);
            Entry {
                position: Position::new(score, id),
                row: row.filter(is_listed),
            }
        });
        let entries = entries.collect();
        Ok(Step::new(entries, self.indexes.is_empty()))
    }
}

/// The indexes of the days between two times, both included, in walking order.
fn days(low: i64, high: i64, descending: bool) -> VecDeque<ReservationIndex> {
    let days = Day::between(low, high).map(ReservationIndex::Created);
    match descending {
        true => days.rev().collect(),
        false => days.collect(),
    }
}
