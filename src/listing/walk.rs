//! Walks along an index.

use super::Position;

/// Entries that a step reads at once where it need not be fewer.
pub const STEP_ROWS: usize = 500;

/// The part of an index that a step reads.
#[derive(Debug, Clone, Copy)]
pub struct StepRange<'a> {
    /// The position beyond which it starts; `None`: at the first entry.
    pub after: Option<&'a Position>,
    /// Last entries first.
    pub descending: bool,
    /// Most entries to read.
    pub rows: usize,
    /// Whether the walk begins here.
    pub is_first: bool,
}

impl<'a> StepRange<'a> {
    /// From the first entry on.
    pub const FIRST: Self = Self {
        after: None,
        descending: false,
        rows: STEP_ROWS,
        is_first: true,
    };

    /// The id of the entry beyond which it starts.
    pub fn after_id(&self) -> Option<&'a str> {
        self.after.map(|after| after.id.as_str())
    }
}

/// One entry of an index.
#[derive(Debug)]
pub struct Entry<T> {
    /// Its position in the index.
    pub position: Position,
    /// The row, if the list has it: its record exists and can be read, the caller may see it, and it matches.
    pub row: Option<T>,
}

/// The result of one step of a walk.
#[derive(Debug)]
pub struct Step<T> {
    /// All entries that were examined, in order. One that cannot be read has a place here too: what was left out never decides
    /// where a step, or a list, ends.
    pub entries: Vec<Entry<T>>,
    /// How far the walk has come, where that is beyond the last entry.
    pub reached: Option<Position>,
    /// Number of further items that were examined. They count against the bound of a page; a sort bounds them apart.
    pub passed: usize,
    /// Whether the index ends here.
    pub complete: bool,
    /// Whether a page ends here, however few its rows: they are long.
    pub ends_page: bool,
}

impl<T> Step<T> {
    /// A step that examined only its entries.
    pub fn new(entries: Vec<Entry<T>>, complete: bool) -> Self {
        Self {
            entries,
            reached: None,
            passed: 0,
            complete,
            ends_page: false,
        }
    }

    /// The same without the rows that do not match.
    pub fn filter(mut self, matches: impl Fn(&T) -> bool) -> Self {
        for entry in &mut self.entries {
            entry.row.take_if(|row| !matches(row));
        }
        self
    }
}

/// A walk along an index.
pub trait Walk {
    /// The items of the list.
    type Row;
    /// Why a step fails.
    type Error;
    /// Most entries of a step.
    const ROWS: usize = STEP_ROWS;
    /// The same for the steps of a sort, after its first one.
    const SORT_ROWS: usize = Self::ROWS;

    /// Whether entries may be left out.
    fn is_filtered(&self) -> bool {
        true
    }

    /// How many entries the walk examines, if it can say so in advance.
    ///
    /// # Errors
    /// Of the store.
    fn count(&self) -> impl Future<Output = Result<Option<usize>, Self::Error>> + Send {
        async { Ok(None) }
    }

    /// Examines the next entries, in one round trip. A step that is not complete has come further than the one before.
    ///
    /// # Errors
    /// Of the store, and refusals of the caller.
    fn step(
        &mut self,
        range: StepRange<'_>,
    ) -> impl Future<Output = Result<Step<Self::Row>, Self::Error>> + Send;
}

/// The steps of a walk, one after the other.
pub(super) struct Steps<'w, W> {
    walk: &'w mut W,
    /// How far the walk has come.
    pub reached: Option<Position>,
    descending: bool,
    /// Most entries of the next step, and of those after it.
    rows: (usize, usize),
    is_first: bool,
}

impl<'w, W: Walk> Steps<'w, W> {
    /// Beyond a position. `rows`: most entries of the first step, and of the others.
    pub fn beyond(
        reached: Option<Position>,
        descending: bool,
        rows: (usize, usize),
        walk: &'w mut W,
    ) -> Self {
        Self {
            walk,
            reached,
            descending,
            rows,
            is_first: true,
        }
    }

    pub async fn next(&mut self) -> Result<Step<W::Row>, W::Error> {
        let range = StepRange {
            after: self.reached.as_ref(),
            descending: self.descending,
            rows: self.rows.0,
            is_first: self.is_first,
        };
        let step = self.walk.step(range).await?;
        let last = step.entries.last().map(|entry| &entry.position);
        if let Some(reached) = step.reached.as_ref().or(last) {
            self.reached = Some(reached.clone());
        }
        (self.rows.0, self.is_first) = (self.rows.1, false);
        Ok(step)
    }
}

/// Visits every row of a walk, however many there are.
///
/// # Errors
/// Those of the walk and of `visit`.
pub async fn each<W: Walk>(
    walk: &mut W,
    mut visit: impl FnMut(W::Row) -> Result<(), W::Error>,
) -> Result<(), W::Error> {
    let mut steps = Steps::beyond(None, false, (W::ROWS, W::ROWS), walk);
    loop {
        let step = steps.next().await?;
        let mut rows = step.entries.into_iter().filter_map(|entry| entry.row);
        rows.try_for_each(&mut visit)?;
        if step.complete {
            return Ok(());
        }
    }
}
