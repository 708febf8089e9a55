//! The days of an index by time: of the view over all tenants, or of the logs of one.

use std::collections::VecDeque;

use super::LogEntry;
use crate::listing::StepRange;
use crate::store::dispatcher::view_rows::{LogIndex, Span};
use crate::store::dispatcher::views::View;
use crate::store::{Day, ExtraRoundTrip, Store, StoreError};

/// Entries of a log that are read at once, with their facts.
const LOG_ROWS: usize = 200;

/// Days that are counted at once at first; then four times as many each time.
const COUNTED_FIRST: usize = 8;

/// What is left of an index. Days are counted as far as a step needs.
pub(in crate::admin) struct LogDays {
    view: View,
    index: LogIndex,
    span: Span,
    /// The days that have rows, and how many, in walking order.
    counted: VecDeque<(Day, usize)>,
    /// The days that follow them.
    uncounted: VecDeque<Day>,
    /// How many of these are counted next.
    counted_next: usize,
}

impl LogDays {
    /// Reads nothing yet.
    pub fn new(
        view: View,
        index: LogIndex,
        (low_ms, high_ms): (i64, i64),
        range: StepRange<'_>,
    ) -> Self {
        let after = range.after;
        let span = Span {
            low_ms,
            high_ms,
            descending: range.descending,
            after: after.and_then(|it| Some((it.number()?, it.id.clone()))),
        };
        let (low_ms, high_ms) = span.bounds();
        let days = Day::between(low_ms, high_ms);
        Self {
            view,
            index,
            counted: VecDeque::new(),
            uncounted: match span.descending {
                true => days.rev().collect(),
                false => days.collect(),
            },
            counted_next: COUNTED_FIRST,
            span,
        }
    }

    /// Whether no day is left.
    pub fn is_complete(&self) -> bool {
        self.counted.is_empty() && self.uncounted.is_empty()
    }

    /// How many rows the days that are left have, those included that were read of the first one. Counts no further once they
    /// are more than `rows`.
    pub async fn count_beyond(&mut self, store: &Store, rows: usize) -> Result<usize, StoreError> {
        let mut count = self.counted.iter().map(|(_, count)| count).sum();
        while count <= rows && !self.uncounted.is_empty() {
            store.extra_round_trip(ExtraRoundTrip::Paging);
            let next = self.uncounted.len().min(self.counted_next);
            let days: Vec<Day> = self.uncounted.drain(..next).collect();
            let counts = store.count_view(self.view, &self.index, &days, &self.span);
            let counts = counts.await?;
            count += counts.iter().sum::<usize>();
            let held = days.into_iter().zip(counts).filter(|(_, held)| *held > 0);
            self.counted.extend(held);
            self.counted_next *= 4;
        }
        Ok(count)
    }

    /// The next entries. None only where nothing is left, or a log has none of the span on these days.
    pub async fn step(&mut self, store: &Store, rows: usize) -> Result<Vec<LogEntry>, StoreError> {
        let rows = match self.index {
            LogIndex::Tenant(_) => rows.min(LOG_ROWS),
            _ => rows,
        };
        self.count_beyond(store, rows).await?;
        // Days with few rows are read at once, as many as a step needs.
        let (mut some, mut expected) = (Vec::new(), 0);
        for (day, count) in &self.counted {
            some.push(*day);
            expected += count;
            if expected > rows {
                break;
            }
        }
        let pages = store.read_view(self.view, &self.index, &some, &self.span, rows);
        let mut entries = Vec::new();
        for page in pages.await? {
            if let Some(last) = page.rows.last() {
                self.span.after = Some((last.at_ms, last.row.member()));
            }
            entries.extend(page.rows);
            if !page.complete {
                // The next step begins with the rest of that day.
                break;
            }
            self.counted.pop_front();
        }
        Ok(entries)
    }
}
