//! Lists in an order other than that of creation: active reservations by expiry along their due times, and any other sort
//! by gathering.

use std::cmp::Ordering;

use super::list::{
    Candidate, ListError, PAGE_ROWS_MAX, Position, ReservationPage, ReservationQuery, matches,
    order, position_of,
};
use super::walk::{GRACE_MS_MAX, Step, Walker};
use super::{Ledger, LedgerError};
use crate::domain::caller::Caller;

/// Matches that a sort without an index gathers.
const MATCHES_MAX: usize = 10_000;
/// Rows that such a sort looks at; and active ones by expiry until one of them is known to come next.
const ROWS_MAX: usize = 50_000;

impl Ledger {
    /// Looks at all that matches, and keeps what comes first.
    pub(super) async fn list_gathered(
        &self,
        caller: &Caller,
        query: &ReservationQuery,
    ) -> Result<ReservationPage, ListError> {
        let mut walker = Walker::for_gathering(self, query);
        let (mut first, mut matched, mut examined) = (Vec::new(), 0, 0);
        while let Some(steps) = walker.step(self, caller).await? {
            examined += steps.len();
            for step in steps {
                if let Some(candidate) = candidate(step, query)? {
                    matched += 1;
                    first.push(candidate);
                }
            }
            keep_first(&mut first, query);
            if matched > MATCHES_MAX {
                return too_many(MATCHES_MAX, "match");
            }
            if examined > ROWS_MAX {
                return too_many(ROWS_MAX, "would have to be looked at");
            }
        }
        Ok(self.first_of(query, first).await?)
    }

    /// Active reservations by expiry. The index has their due times, which lie up to the longest grace behind: a row is
    /// told once no row that was not seen can come before it.
    pub(super) async fn list_by_expiry(
        &self,
        caller: &Caller,
        query: &ReservationQuery,
    ) -> Result<ReservationPage, ListError> {
        let start = query
            .after
            .as_ref()
            .and_then(|after| after.value.parse::<i64>().ok());
        let (mut low, mut high) = (
            query.expires.from_ms.unwrap_or(0),
            query.expires.to_ms.unwrap_or(i64::MAX >> 11),
        );
        match start {
            Some(start) if query.descending => high = high.min(start),
            Some(start) => low = low.max(start),
            None => {}
        }
        let mut walker = Walker::by_due_time(query, low, high);
        let (mut found, mut examined) = (Vec::new(), 0);
        while let Some(steps) = walker.step(self, caller).await? {
            examined += steps.len();
            for step in steps {
                found.extend(candidate(step, query)?);
            }
            keep_first(&mut found, query);
            let Some(due_ms) = walker.reached() else {
                break;
            };
            let certain_ms = if query.descending {
                due_ms
            } else {
                due_ms.saturating_sub(GRACE_MS_MAX)
            };
            let unseen = Position {
                value: certain_ms.to_string(),
                reservation_id: String::new(),
            };
            let is_certain = |c: &Candidate| order(&c.position, &unseen, query) == Ordering::Less;
            let certain = found.iter().filter(|c| is_certain(c)).count();
            if certain > query.limit {
                break;
            }
            let onwards = certain > 0
                || query
                    .after
                    .as_ref()
                    .is_some_and(|after| order(&unseen, after, query) == Ordering::Greater);
            if examined >= PAGE_ROWS_MAX && onwards {
                found.truncate(certain);
                return Ok(self.page_of(query, found, Some(unseen)).await?);
            }
            if examined > ROWS_MAX {
                return too_many(ROWS_MAX, "would have to be looked at");
            }
        }
        Ok(self.first_of(query, found).await?)
    }

    /// The page at the beginning of what is in order.
    async fn first_of(
        &self,
        query: &ReservationQuery,
        mut ordered: Vec<Candidate>,
    ) -> Result<ReservationPage, LedgerError> {
        let more = ordered.len() > query.limit;
        ordered.truncate(query.limit);
        let last = ordered.last().filter(|_| more);
        let next = last.map(|candidate| candidate.position.clone());
        self.page_of(query, ordered, next).await
    }
}

/// A row with its place in the order, if the query asks for it.
fn candidate(step: Step, query: &ReservationQuery) -> Result<Option<Candidate>, LedgerError> {
    let Step { row, visible } = step;
    if !visible || !matches(&row, query)? {
        return Ok(None);
    }
    Ok(Some(Candidate {
        position: position_of(&row, query.sort)?,
        row,
    }))
}

/// Keeps those that stand first behind the last page, in order: a page, and one more to know whether another follows.
fn keep_first(candidates: &mut Vec<Candidate>, query: &ReservationQuery) {
    if let Some(after) = &query.after {
        candidates.retain(|c| order(&c.position, after, query) == Ordering::Greater);
    }
    candidates.sort_by(|a, b| order(&a.position, &b.position, query));
    candidates.truncate(query.limit + 1);
}

fn too_many<T>(bound: usize, what: &'static str) -> Result<T, ListError> {
    Err(ListError::TooMany { bound, what })
}
