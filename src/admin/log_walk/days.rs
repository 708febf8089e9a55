//! The days of an index by time: of the view over all tenants, or of the logs of one.

use std::collections::VecDeque;

use super::LogEntry;
use crate::listing::StepRange;
use crate::store::dispatcher::view_rows::{LogIndex, Span};
use crate::store::dispatcher::views::View;
use crate::store::{Day, ExtraRoundTrip, Store, StoreError};

/// Entries of a log that are read at once, with their facts.
const LOG_ROWS: usize = 200;

/// What is left of an index.
pub(in crate::admin) struct LogDays {
    view: View,
    index: LogIndex,
    span: Span,
    /// The days that have rows, and how many, in walking order.
    days: VecDeque<(Day, usize)>,
}

impl LogDays {
    pub async fn new(
        store: &Store,
        view: View,
        index: LogIndex,
        (low_ms, high_ms): (i64, i64),
        range: StepRange<'_>,
    ) -> Result<Self, StoreError> {
        let after = range
            .after
            .and_then(|it| Some((it.number()?, it.id.clone())));
        let after_ms = after.as_ref().map(|(at_ms, _)| *at_ms);
        let span = Span {
            low_ms,
            high_ms,
            descending: range.descending,
            after,
        };
        let days: Vec<Day> = match range.descending {
            true => {
                let high_ms = after_ms.map_or(high_ms, |after_ms| high_ms.min(after_ms));
                Day::between(low_ms, high_ms).rev().collect()
            }
            false => {
                let low_ms = after_ms.map_or(low_ms, |after_ms| low_ms.max(after_ms));
                Day::between(low_ms, high_ms).collect()
            }
        };
        let mut counts = Vec::new();
        if !days.is_empty() {
            store.extra_round_trip(ExtraRoundTrip::Paging);
            let counted = store.count_view(view, &index, &days, &span);
            counts = counted.await?;
        }
        let held = days.into_iter().zip(counts).filter(|(_, count)| *count > 0);
        Ok(Self {
            view,
            index,
            span,
            days: held.collect(),
        })
    }

    /// How many rows its days had when it began, of those that are left.
    pub fn left(&self) -> usize {
        self.days.iter().map(|(_, count)| count).sum()
    }

    /// Whether no day is left.
    pub fn is_complete(&self) -> bool {
        self.days.is_empty()
    }

    /// The next entries.
    pub async fn step(&mut self, store: &Store, rows: usize) -> Result<Vec<LogEntry>, StoreError> {
        let rows = match self.index {
            LogIndex::Tenant(_) => rows.min(LOG_ROWS),
            _ => rows,
        };
        // Days with few rows are read at once, as many as a step needs.
        let (mut some, mut expected) = (Vec::new(), 0);
        for (day, count) in &self.days {
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
            self.days.pop_front();
        }
        Ok(entries)
    }
}
