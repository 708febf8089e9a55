//! Walks along an index, and pages in its order.

use super::{ListQuery, Page, Position, Sort, SortKey};

/// Entries that a walk reads at once where it need not be fewer.
pub const STEP_ROWS: usize = 500;

/// How much a list may look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Entries that a page in the order of an index looks at; with a sparse filter it may be short, and its cursor continues.
    pub page_rows: usize,
    /// Matches that any other order sorts.
    pub matches: usize,
    /// Entries that it looks at for them.
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

/// One entry of an index.
#[derive(Debug)]
pub struct Entry<T> {
    /// Its position in the index.
    pub position: Position,
    /// The row, if the list has it: its record is there and sound, the caller may see it, and it matches.
    pub row: Option<T>,
}

/// The result of one step of a walk.
#[derive(Debug)]
pub struct Step<T> {
    /// All entries that were looked at, in order. One that cannot be read has a place here too: what ends a step, or a list,
    /// is never decided by what was left out.
    pub entries: Vec<Entry<T>>,
    /// How far the walk has come, where that is beyond the last entry.
    pub reached: Option<Position>,
    /// Examined members that are not entries; they count against the bounds of the list.
    pub passed: usize,
    /// Whether the index ends here.
    pub complete: bool,
    /// Whether a page ends here, however few its rows: they are long.
    pub ends_page: bool,
}

impl<T> Step<T> {
    /// A step that looked at nothing but its entries.
    pub fn new(entries: Vec<Entry<T>>, complete: bool) -> Self {
        Self {
            entries,
            reached: None,
            passed: 0,
            complete,
            ends_page: false,
        }
    }

    /// The number of examined rows, which counts against the bounds of the list.
    pub(super) fn examined(&self) -> usize {
        self.entries.len() + self.passed
    }
}

/// A walk along an index, which remembers where it is.
pub trait Walk {
    /// The items of the list.
    type Row;
    /// Why a step cannot be made.
    type Error;

    /// Looks at the next entries. A step that is not complete has come further than the one before; after the step that is
    /// complete, there is none.
    ///
    /// # Errors
    /// Of the store, and refusals of the caller.
    fn step(&mut self) -> impl Future<Output = Result<Step<Self::Row>, Self::Error>> + Send;
}

/// A page in the order of the walk, which is by `by`. It costs in proportion to what is looked at: where few entries match, no
/// more than `bounds.page_rows`, and then the page may be short although more follows.
///
/// # Errors
/// Those of the walk.
pub async fn page_along<W: Walk, F, K: SortKey>(
    walk: &mut W,
    query: &ListQuery<F, K>,
    by: K,
    bounds: Bounds,
) -> Result<Page<W::Row, K>, W::Error> {
    let descending = query.sort.descending;
    let mut page = Page::new(Vec::new(), Sort { by, descending }, None);
    let (mut last, mut examined) = (query.after.clone(), 0);
    loop {
        let step = walk.step().await?;
        examined += step.examined();
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
        last = step.reached.or(last);
        if step.complete {
            return Ok(page);
        }
        if examined >= bounds.page_rows || step.ends_page {
            page.next = last;
            return Ok(page);
        }
    }
}

/// Visits every row of a walk, however many there are.
///
/// # Errors
/// Those of the walk.
pub async fn each<W: Walk>(walk: &mut W, mut visit: impl FnMut(W::Row)) -> Result<(), W::Error> {
    loop {
        let step = walk.step().await?;
        let rows = step.entries.into_iter().filter_map(|entry| entry.row);
        rows.for_each(&mut visit);
        if step.complete {
            return Ok(());
        }
    }
}
