//! A page of active reservations in the order of their expiry.

use std::cmp::Ordering;

use super::walk::{GRACES, ReservationWalk};
use super::{ReservationPage, ReservationQuery, ReservationSort};
use crate::listing::{Bounds, Position, RowOrder, Sorted, Walk};
use crate::store::OperationError;

/// The index has due times, which lie behind the expiry by the grace. A row comes onto the page once no row that was not seen
/// can come before it: at once where all have the same grace, else when the walk is as far beyond it as their graces differ.
///
/// # Errors
/// [`OperationError`]; refused where `bounds.rows` reservations are due within that time, and where
/// too many lists look at more than a page may.
pub(super) async fn page(
    mut walk: ReservationWalk<'_>,
    query: &ReservationQuery,
    bounds: Bounds,
) -> Result<ReservationPage, OperationError> {
    let graces = walk.graces().await?.unwrap_or(GRACES);
    walk.start_by_expiry(&graces);
    let (mut sorted, mut examined, mut place) = (Sorted::new(query), 0, None);
    let mut start = query.after.clone();
    loop {
        let step = walk.step().await?;
        examined += step.entries.len();
        let ends = step.entries.first().zip(step.entries.last());
        let ends = ends.map(|(first, last)| (first.position.clone(), last.position.clone()));
        sorted.extend(step.entries.into_iter().filter_map(|entry| entry.row));
        let Some((first, last)) = ends.filter(|_| !step.complete) else {
            return Ok(sorted.into_page());
        };
        let (nearest, furthest) = match query.sort.descending {
            true => (graces.end(), graces.start()),
            false => (graces.start(), graces.end()),
        };
        let start = start.get_or_insert_with(|| expiry(first, *nearest));
        // No row that was not seen comes before this position.
        let unseen = expiry(last, *furthest);
        let certain = sorted.up_to(&unseen);
        if certain > query.limit {
            return Ok(sorted.into_page());
        }
        let comes_further = certain > 0 || query.sort.compare(&unseen, start) == Ordering::Greater;
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

/// Where a row with this position in the index and this grace stands in the list.
fn expiry(due: Position, grace_ms: i64) -> Position {
    let due_ms = due.number().unwrap_or_default();
    Position::new(due_ms.saturating_sub(grace_ms), due.id)
}
