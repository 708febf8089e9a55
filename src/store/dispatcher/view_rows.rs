//! Reading the rows of views: along the time of all rows or of one kind of them, or of those that belong to an id.

use redis::{Cmd, Value};
use tracing::error;

use super::views::{Row, View, id_member};
use crate::store::records::{command, read_or_default};
use crate::store::{Day, Lane, OnFailure, Store, StoreError};

/// An index of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewIndex {
    /// All rows.
    All,
    /// Those of one kind.
    Kind(String),
    /// Those of one id, as [`super::views::id_digest`] names it.
    Id(String),
}

/// A part of an index: the rows of a span of time, beyond one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The earliest time, in milliseconds.
    pub low_ms: i64,
    /// The latest.
    pub high_ms: i64,
    /// Latest first; so are those of one millisecond.
    pub descending: bool,
    /// The last row that was seen: its time and text.
    pub after: Option<(i64, String)>,
}

/// Some rows of one day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewPage {
    /// In order.
    pub rows: Vec<ViewRow>,
    /// Whether the day has no more in the span.
    pub complete: bool,
}

/// A row and when it happened, in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewRow {
    /// When.
    pub at_ms: i64,
    /// Its text in the index of all rows.
    pub member: String,
    /// Where it leads to.
    pub row: Row,
}

impl Span {
    /// What is left of it: the time of the last row bounds it as well.
    fn bounds(&self) -> (i64, i64) {
        match (&self.after, self.descending) {
            (None, _) => (self.low_ms, self.high_ms),
            (Some((at_ms, _)), true) => (self.low_ms, self.high_ms.min(*at_ms)),
            (Some((at_ms, _)), false) => (self.low_ms.max(*at_ms), self.high_ms),
        }
    }

    fn is_ahead(&self, row: &ViewRow) -> bool {
        let Some((at_ms, member)) = &self.after else {
            return true;
        };
        let order = (row.at_ms, &row.member).cmp(&(*at_ms, member));
        match self.descending {
            true => order.is_lt(),
            false => order.is_gt(),
        }
    }
}

impl Store {
    /// How many rows each of these days has in a span of time, including some that were seen.
    pub async fn count_view(
        &self,
        view: View,
        index: &ViewIndex,
        days: &[Day],
        span: &Span,
    ) -> Result<Vec<usize>, StoreError> {
        let range = |day: &Day| self.range(view, index, *day, span, None);
        let commands: Vec<_> = days.iter().map(range).collect();
        let replies = self.send_each(&commands, OnFailure::Fail).await?;
        let count = |reply: Result<Value, StoreError>| {
            let count = reply.inspect_err(|error| {
                error!("a day of a view cannot be read, and is left out of lists: {error}")
            });
            count.map_or(0, read_or_default)
        };
        Ok(replies.into_iter().map(count).collect())
    }

    /// Up to `rows` rows of each of these days, in order, beyond the row that was last seen.
    pub async fn read_view(
        &self,
        view: View,
        index: &ViewIndex,
        days: &[Day],
        span: &Span,
        rows: usize,
    ) -> Result<Vec<ViewPage>, StoreError> {
        let range = |day: &Day| self.range(view, index, *day, span, Some((0, rows)));
        let commands: Vec<_> = days.iter().map(range).collect();
        let replies = self.send_all(&commands).await?;
        let mut pages = Vec::with_capacity(days.len());
        for (day, reply) in days.iter().zip(replies) {
            let mut page = read(index, reply, span, rows);
            let mut skipped = rows;
            // All of them happened in the millisecond of the row that was last seen, and come before it.
            while page.rows.is_empty() && !page.complete {
                let range = self.range(view, index, *day, span, Some((skipped, rows)));
                let reply = self.send(Lane::Background, &range).await?;
                page = read(index, reply, span, rows);
                skipped += rows;
            }
            pages.push(page);
        }
        Ok(pages)
    }

    /// The command that counts rows, or that reads some.
    fn range(
        &self,
        view: View,
        index: &ViewIndex,
        day: Day,
        span: &Span,
        limit: Option<(usize, usize)>,
    ) -> (String, Cmd) {
        let (low, high) = span.bounds();
        let (keys, name) = (self.keys(), view.as_str());
        let (key, counting, low, high) = match index {
            ViewIndex::All => (
                keys.view(name, None, day),
                "ZCOUNT",
                low.to_string(),
                high.to_string(),
            ),
            ViewIndex::Kind(kind) => {
                let key = keys.view(name, Some(kind), day);
                (key, "ZCOUNT", low.to_string(), high.to_string())
            }
            ViewIndex::Id(digest) => {
                let low = format!("[{}", id_member(digest, low.max(0), ""));
                // After all members of that millisecond: they continue with a blank.
                let high = format!("({}!", id_member(digest, high.max(-1), "").trim_end());
                (keys.view_ids(name, day), "ZLEXCOUNT", low, high)
            }
        };
        let Some((offset, rows)) = limit else {
            return command(counting, key, (low, high));
        };
        let by_id = matches!(index, ViewIndex::Id(_));
        let (bounds, reverse) = match span.descending {
            true => ((high, low), Some("REV")),
            false => ((low, high), None),
        };
        let (by, scores) = match by_id {
            true => ("BYLEX", None),
            false => ("BYSCORE", Some("WITHSCORES")),
        };
        let limit = ("LIMIT", offset, rows);
        command("ZRANGE", key, (bounds, by, reverse, limit, scores))
    }
}

fn read(index: &ViewIndex, reply: Value, span: &Span, wanted: usize) -> ViewPage {
    let rows: Vec<Option<ViewRow>> = match index {
        ViewIndex::Id(_) => {
            let members: Vec<String> = read_or_default(reply);
            members.iter().map(|member| of_id(member)).collect()
        }
        ViewIndex::All | ViewIndex::Kind(_) => {
            let members: Vec<(String, f64)> = read_or_default(reply);
            let rows = members.into_iter();
            rows.map(|(member, at_ms)| view_row(at_ms as i64, member))
                .collect()
        }
    };
    let complete = rows.len() < wanted;
    let rows = rows.into_iter().flatten();
    let rows = rows.filter(|row| span.is_ahead(row)).collect();
    ViewPage { rows, complete }
}

fn of_id(member: &str) -> Option<ViewRow> {
    let (_, rest) = member.split_once(' ')?;
    let (at_ms, member) = rest.split_once(' ')?;
    view_row(at_ms.parse().ok()?, member.to_owned())
}

/// `None` for a member that is none of ours: it hides no other.
fn view_row(at_ms: i64, member: String) -> Option<ViewRow> {
    let row = Row::parse(&member)?;
    Some(ViewRow { at_ms, member, row })
}
