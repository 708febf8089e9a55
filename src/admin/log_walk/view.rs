//! The days of an index of the view over all tenants.

use std::collections::VecDeque;

use super::{LogEntry, LogStep, Route, days};
use crate::store::dispatcher::view_rows::{Span, ViewIndex};
use crate::store::dispatcher::views::View;
use crate::store::{Day, ExtraRoundTrip, Store, StoreError};

/// The rows of an index of the view.
pub(in crate::admin) struct ViewDays {
    view: View,
    index: ViewIndex,
    span: Span,
    /// The days that have rows, and how many, in walking order.
    days: VecDeque<(Day, usize)>,
    /// Rows of the next step, and of those behind it.
    rows: (usize, usize),
}

impl ViewDays {
    pub async fn new(
        store: &Store,
        route: &Route<'_>,
        (low_ms, high_ms): (i64, i64),
    ) -> Result<Self, StoreError> {
        let span = Span {
            low_ms,
            high_ms,
            descending: route.descending,
            after: route.after(),
        };
        let (low_ms, high_ms) = route.left_of((low_ms, high_ms));
        let days: Vec<Day> = days(low_ms, high_ms, route.descending);
        let mut counts = Vec::new();
        if !days.is_empty() {
            store.extra_round_trip(ExtraRoundTrip::Paging);
            let counted = store.count_view(route.view, &route.index, &days, &span);
            counts = counted.await?;
        }
        let held = days.into_iter().zip(counts).filter(|(_, count)| *count > 0);
        Ok(Self {
            view: route.view,
            index: route.index.clone(),
            span,
            days: held.collect(),
            rows: (route.rows_first, route.rows),
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
    pub async fn step(&mut self, store: &Store) -> Result<LogStep, StoreError> {
        let (rows, further) = self.rows;
        self.rows = (further, further);
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
                self.span.after = Some((last.at_ms, last.member.clone()));
            }
            entries.extend(page.rows.into_iter().map(|row| LogEntry {
                at_ms: row.at_ms,
                row: row.row,
                facts: None,
            }));
            if !page.complete {
                // The next step begins with the rest of that day.
                break;
            }
            self.days.pop_front();
        }
        Ok(LogStep {
            entries,
            complete: self.is_complete(),
        })
    }
}
