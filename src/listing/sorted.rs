//! Pages in an order that has no index: all rows that match are gathered, and those of the page kept.

use std::cmp::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::gathering::Place;
use super::{Bounds, ListQuery, Page, Position, RowOrder, SortKey, Walk};
use crate::domain::refusal::{TooManyGather, TooManyToSort};

/// Rows that a script reads at once for a list that gathers, behind its first step: requests of others come between.
pub const GATHER_ROWS: usize = 30;

/// Between two steps a list that gathers waits this multiple of the time of the last step, and leaves Redis to others. If further
/// lists of its owner gather, it waits as many times longer, so that together they take hardly more of Redis than one.
const PAUSE_STEPS: u32 = 3;
/// The longest pause, so that a list also ends beside others.
const PAUSE_MAX: Duration = Duration::from_millis(8);

/// Rows that come first after the last page, in order: a page, and one more to know whether another follows.
pub struct Sorted<'q, T, F, K> {
    query: &'q ListQuery<F, K>,
    rows: Vec<(Position, T)>,
}

impl<'q, T, F, K: SortKey> Sorted<'q, T, F, K> {
    /// Starts without rows.
    pub fn new(query: &'q ListQuery<F, K>) -> Self {
        Self {
            query,
            rows: Vec::new(),
        }
    }

    /// Adds rows and keeps those that come first. Rows up to the last page's end are dropped.
    pub fn extend(&mut self, rows: impl IntoIterator<Item = T>)
    where
        K: RowOrder<T>,
    {
        let (sort, after) = (self.query.sort, self.query.after.as_ref());
        let rows = rows.into_iter().map(|row| (sort.by.position(&row), row));
        let is_behind = |(position, _): &(Position, T)| {
            after.is_none_or(|after| sort.compare(position, after) == Ordering::Greater)
        };
        self.rows.extend(rows.filter(is_behind));
        self.rows.sort_by(|(a, _), (b, _)| sort.compare(a, b));
        self.rows.truncate(self.query.limit + 1);
    }

    /// How many of the rows do not come behind a position.
    pub fn up_to(&self, position: &Position) -> usize {
        let order = |row: &Position| self.query.sort.compare(row, position);
        self.rows
            .partition_point(|(row, _)| order(row) != Ordering::Greater)
    }

    /// The page.
    pub fn into_page(mut self) -> Page<T, K> {
        let more = self.rows.len() > self.query.limit;
        self.rows.truncate(self.query.limit);
        let last = self.rows.last().filter(|_| more);
        let next = last.map(|(position, _)| position.clone());
        self.page(next)
    }

    /// The page of the first `rows` rows, after which the list continues at `next`.
    pub fn into_short_page(mut self, rows: usize, next: Position) -> Page<T, K> {
        self.rows.truncate(rows.min(self.query.limit));
        self.page(Some(next))
    }

    fn page(self, next: Option<Position>) -> Page<T, K> {
        let rows = self.rows.into_iter().map(|(_, row)| row);
        Page::new(rows.collect(), self.query.sort, next)
    }
}

/// A page of all rows of a walk, sorted as the query says. From the second step on it takes a place, and pauses between
/// steps.
///
/// # Errors
/// Those of the walk; [`TooManyToSort`] above `bounds.matches` matches or `bounds.rows` entries; [`TooManyGather`].
pub async fn gather<W: Walk, F, K: RowOrder<W::Row>>(
    walk: &mut W,
    query: &ListQuery<F, K>,
    bounds: Bounds,
) -> Result<Page<W::Row, K>, W::Error>
where
    W::Error: From<TooManyToSort> + From<TooManyGather>,
{
    let (mut sorted, mut matches, mut examined) = (Sorted::new(query), 0, 0);
    let mut place = None;
    loop {
        let begun = Instant::now();
        let step = walk.step().await?;
        let took = begun.elapsed();
        examined += step.examined();
        let rows = step.entries.into_iter().filter_map(|entry| entry.row);
        sorted.extend(rows.inspect(|_| matches += 1));
        for (bound, count) in [(bounds.matches, matches), (bounds.rows, examined)] {
            if count > bound {
                return Err(K::too_many(bound).into());
            }
        }
        if step.complete {
            return Ok(sorted.into_page());
        }
        match place {
            None => place = Some(query.place().await?),
            Some(ref place) => {
                let lists = place.as_ref().map_or(1, Place::lists);
                sleep((took * PAUSE_STEPS * lists).min(PAUSE_MAX)).await;
            }
        }
    }
}
