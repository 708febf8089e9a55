//! Pages: along an index, or of all rows that match, sorted.

use std::cmp::Ordering;
use std::time::Duration;

use super::scans::Scan;
use super::walk::Steps;
use super::{ListQuery, Page, Position, RowOrder, Sort, SortKey, Walk};
use crate::domain::refusal::{TooManyScanned, TooManySorts, TooManyToSort};

/// How long the steps of a page wait until its tenant may examine more rows, in all: half as long as its calls of Redis may take
/// by default. Those of a list that gathers have eight times as long.
const WAIT_MAX: Duration = Duration::from_secs(1);
const GATHERING_WAIT_MAX: Duration = Duration::from_secs(8);

/// How much a list may examine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Entries that a page in the order of an index examines; with a sparse filter it may be short, and its cursor continues.
    pub page_rows: usize,
    /// Matches that any other order sorts.
    pub matches: usize,
    /// Entries that it examines for them.
    pub rows: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            page_rows: 5_000,
            matches: 10_000,
            rows: 50_000,
        }
    }
}

/// A page of a list: along the index, if the order has one, else sorted. Where there are too many rows to sort by default, the
/// page is along the index of the order that stands in ([`SortKey::FALLBACK`]).
///
/// # Errors
/// Those of the walk; [`TooManyToSort`]; [`TooManySorts`]; [`TooManyScanned`].
pub async fn page<W: Walk, F, K: RowOrder<W::Row>>(
    walk: &mut W,
    query: &ListQuery<F, K>,
    bounds: Bounds,
) -> Result<Page<W::Row, K>, W::Error>
where
    W::Error: From<TooManyToSort> + From<TooManySorts> + From<TooManyScanned>,
{
    if query.has_index() {
        return page_along(walk, query, query.sort.by, bounds).await;
    }
    let bound = match gather(walk, query, bounds).await? {
        Ok(page) => return Ok(page),
        Err(bound) => bound,
    };
    match K::FALLBACK {
        // An order that was begun is kept.
        Some(by) if query.any_order && query.after.is_none() => {
            page_along(walk, query, by, bounds).await
        }
        _ => Err(K::too_many(bound).into()),
    }
}

/// A page in the order of the walk, which is by `by`. It costs in proportion to what is examined: where few entries match, no
/// more than `bounds.page_rows`, and then the page may be short although more follows. Entries that do not match are charged to
/// the tenant.
///
/// # Errors
/// Those of the walk; [`TooManyScanned`].
pub async fn page_along<W: Walk, F, K: SortKey>(
    walk: &mut W,
    query: &ListQuery<F, K>,
    by: K,
    bounds: Bounds,
) -> Result<Page<W::Row, K>, W::Error>
where
    W::Error: From<TooManyScanned>,
{
    let descending = query.sort.descending;
    let mut leaves_out = walk.is_filtered();
    // Where every entry comes onto the page: one more, to know whether another page follows.
    let first = match leaves_out {
        true => W::ROWS,
        false => W::ROWS.min(query.limit + 1),
    };
    let mut scan = Scan::new(query.limits.as_ref(), WAIT_MAX);
    let mut page = Page::new(Vec::new(), Sort { by, descending }, None);
    let (mut last, mut examined) = (query.after.clone(), 0);
    let mut steps = Steps::beyond(last.clone(), descending, (first, W::ROWS), walk);
    loop {
        if leaves_out {
            match scan.wait().await {
                Err(_) if examined > 0 => {
                    page.next = last;
                    return Ok(page);
                }
                waited => waited?,
            }
        }
        let step = steps.next().await?;
        let left_out = step.entries.iter().filter(|entry| entry.row.is_none());
        let left_out = left_out.count() + step.passed;
        scan.charge(left_out);
        // A restricted key also leaves rows out.
        leaves_out |= left_out > 0;
        examined += step.entries.len() + step.passed;
        for entry in step.entries {
            if let Some(row) = entry.row {
                if page.rows.len() == query.limit {
                    page.next = last;
                    return Ok(page);
                }
                page.rows.push(row);
            }
            last = Some(entry.position);
        }
        if step.complete {
            return Ok(page);
        }
        last = steps.reached.clone();
        if examined >= bounds.page_rows || step.ends_page {
            page.next = last;
            return Ok(page);
        }
    }
}

/// A page of all rows of a walk, sorted as the query says; or the bound, if more than `bounds.matches` rows match or more than
/// `bounds.rows` entries must be examined. From the second step on it needs a permit.
async fn gather<W: Walk, F, K: RowOrder<W::Row>>(
    walk: &mut W,
    query: &ListQuery<F, K>,
    bounds: Bounds,
) -> Result<Result<Page<W::Row, K>, usize>, W::Error>
where
    W::Error: From<TooManySorts> + From<TooManyScanned>,
{
    let (mut sorted, mut matches, mut examined, mut passed) = (Sorted::new(query), 0, 0, 0);
    if walk.count().await?.is_some_and(|count| count > bounds.rows) {
        return Ok(Err(bounds.rows));
    }
    let mut steps = Steps::beyond(None, query.sort.descending, (W::ROWS, W::SORT_ROWS), walk);
    let (mut permit, mut scan) = (None, Scan::new(query.limits.as_ref(), GATHERING_WAIT_MAX));
    loop {
        scan.wait().await?;
        let step = steps.next().await?;
        scan.charge(step.entries.len() + step.passed);
        examined += step.entries.len();
        passed += step.passed;
        let rows = step.entries.into_iter().filter_map(|entry| entry.row);
        sorted.extend(rows.inspect(|_| matches += 1));
        for (bound, count) in [
            (bounds.matches, matches),
            (bounds.rows, examined),
            (bounds.rows, passed),
        ] {
            if count > bound {
                return Ok(Err(bound));
            }
        }
        if step.complete {
            return Ok(Ok(sorted.into_page()));
        }
        if permit.is_none() {
            permit = Some(query.permit()?);
        }
    }
}

/// Rows that come first after the last page, in order: a page, and one more to know whether another follows.
pub struct Sorted<'q, T, F, K> {
    query: &'q ListQuery<F, K>,
    rows: Vec<(Position, T)>,
}

impl<'q, T, F, K: RowOrder<T>> Sorted<'q, T, F, K> {
    /// Starts without rows.
    pub fn new(query: &'q ListQuery<F, K>) -> Self {
        Self {
            query,
            rows: Vec::new(),
        }
    }

    /// Adds rows and keeps those that come first. Rows up to the last page's end are dropped.
    pub fn extend(&mut self, rows: impl IntoIterator<Item = T>) {
        let (sort, after) = (self.query.sort, self.query.after.as_ref());
        let rows = rows.into_iter().map(|row| (sort.by.position(&row), row));
        let is_after = |(position, _): &(Position, T)| {
            after.is_none_or(|after| sort.compare(position, after) == Ordering::Greater)
        };
        self.rows.extend(rows.filter(is_after));
        self.rows.sort_by(|(a, _), (b, _)| sort.compare(a, b));
        self.rows.truncate(self.query.limit + 1);
    }

    /// The page.
    pub fn into_page(mut self) -> Page<T, K> {
        let more = self.rows.len() > self.query.limit;
        self.rows.truncate(self.query.limit);
        let last = self.rows.last().filter(|_| more);
        let next = last.map(|(position, _)| position.clone());
        let rows = self.rows.into_iter().map(|(_, row)| row);
        Page::new(rows.collect(), self.query.sort, next)
    }
}
