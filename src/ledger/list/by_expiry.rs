//! A page of active reservations in the order of their expiry: two indexes, merged.

use super::walk::{ReservationIndex, ReservationWalk};
use super::{ReservationPage, ReservationQuery};
use crate::listing::{Bounds, Position, Sorted, Walk};
use crate::store::StoreError;

/// A walk along one of the indexes.
struct Side<'a> {
    walk: ReservationWalk<'a>,
    index: ReservationIndex,
    /// Its position in the list; later rows are never before it.
    reached: Option<Position>,
    complete: bool,
}

impl<'a> Side<'a> {
    fn start(mut walk: ReservationWalk<'a>, index: ReservationIndex) -> Self {
        walk.start_by_expiry(index);
        Self {
            walk,
            index,
            reached: None,
            complete: false,
        }
    }
}

/// Along the due times of the reservations with the usual grace, and the expiries of all others. A row comes onto the page once
/// both walks are beyond it. With a sparse filter, or where most have another grace, the page may be short.
///
/// # Errors
/// [`StoreError`]; refused is the caller.
pub(super) async fn page(
    walks: [ReservationWalk<'_>; 2],
    query: &ReservationQuery,
    bounds: Bounds,
) -> Result<ReservationPage, StoreError> {
    let [usual, other] = walks;
    let mut sides = [
        Side::start(usual, ReservationIndex::Due),
        Side::start(other, ReservationIndex::OtherGraces),
    ];
    let (mut sorted, mut examined) = (Sorted::new(query), 0);
    loop {
        let Some(behind) = furthest_behind(&mut sides, query) else {
            return Ok(sorted.into_page());
        };
        let step = behind.walk.step().await?;
        examined += step.entries.len();
        behind.complete = step.complete;
        let index = behind.index;
        if let Some(last) = step.entries.last() {
            behind.reached = Some(index.expiry(last.position.clone()));
        }
        // The other index has a row of another grace.
        sorted.extend(step.entries.into_iter().filter_map(|entry| {
            let expiry = index.expiry(entry.position).number();
            entry.row.filter(|row| Some(row.expires_at_ms) == expiry)
        }));
        let reached = furthest_behind(&mut sides, query).and_then(|behind| behind.reached.clone());
        let Some(reached) = reached else { continue };
        let certain = sorted.up_to(&reached);
        if certain > query.limit {
            return Ok(sorted.into_page());
        }
        if examined >= bounds.page_rows {
            return Ok(sorted.into_short_page(certain, reached));
        }
    }
}

/// The side to continue with: of those that are not complete, the one that is furthest behind.
fn furthest_behind<'s, 'a>(
    sides: &'s mut [Side<'a>; 2],
    query: &ReservationQuery,
) -> Option<&'s mut Side<'a>> {
    let [usual, other] = sides;
    let other_first = match (&usual.reached, &other.reached) {
        (Some(usual), Some(other)) => query.sort.compare(other, usual).is_lt(),
        (usual, _) => usual.is_some(),
    };
    let other_first = usual.complete || (other_first && !other.complete);
    let first = if other_first { other } else { usual };
    Some(first).filter(|side| !side.complete)
}
