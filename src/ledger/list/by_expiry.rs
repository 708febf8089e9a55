//! A page of active reservations in the order of their expiry.

use std::cmp::Ordering;

use super::walk::{GRACE_MS_MAX, ReservationWalk};
use super::{ReservationPage, ReservationQuery, ReservationSort};
use crate::listing::{Bounds, Position, RowOrder, Sorted, Walk};
use crate::store::OperationError;

/// The index has due times, which lie up to the longest grace behind the expiry: a row comes onto the page once no row that
/// was not seen can come before it.
///
/// # Errors
/// [`OperationError`]; refused where `bounds.rows` reservations are due within that time, and where
/// too many lists look at more than a page may.
pub(super) async fn page(
    mut walk: ReservationWalk<'_>,
    query: &ReservationQuery,
    bounds: Bounds,
) -> Result<ReservationPage, OperationError> {
    walk.start_by_expiry();
    let (mut sorted, mut examined, mut place) = (Sorted::new(query), 0, None);
    loop {
        let step = walk.step().await?;
        examined += step.entries.len();
        let due_ms = step.entries.last().and_then(|last| last.position.number());
        sorted.extend(step.entries.into_iter().filter_map(|entry| entry.row));
        let due_ms = match due_ms {
            Some(due_ms) if !step.complete => due_ms,
            _ => return Ok(sorted.into_page()),
        };
        // Up to here, every row was seen.
        let certain_ms = match query.sort.descending {
            true => due_ms,
            false => due_ms.saturating_sub(GRACE_MS_MAX),
        };
        let unseen = Position::new(certain_ms, "");
        let certain = sorted.before(&unseen);
        if certain > query.limit {
            return Ok(sorted.into_page());
        }
        let is_behind = |after| query.sort.compare(&unseen, after) == Ordering::Greater;
        let comes_further = certain > 0 || query.after.as_ref().is_some_and(is_behind);
        if examined >= bounds.page_rows && comes_further {
            return Ok(sorted.into_short_page(certain, unseen));
        }
        if examined >= bounds.page_rows && place.is_none() {
            place = Some(query.place().await?);
        }
        if examined > bounds.rows {
            return Err(ReservationSort::too_many(bounds.rows).into());
        }
    }
}
