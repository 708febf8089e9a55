//! Reading events or audit entries by time: the rows of a view, all or of one kind or those that belong to an id, or the logs of
//! one tenant.

use redis::Value;
use tracing::error;

use super::outbox::Entries;
use super::views::{Row, View, id_member};
use crate::domain::ids::TenantId;
use crate::domain::log_entry::EntryId;
use crate::domain::record::Record;
use crate::store::records::{Command, NO_ARGS, command, read_or_default};
use crate::store::{Day, OnFailure, Store, StoreError};

/// How much later than the time in an entry its place in the log may be, in milliseconds: no script runs as long.
const ENTRY_LATE_MS: i64 = 5_000;

/// An index of a view, or the logs of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogIndex {
    /// The rows of the view: all, or those of one kind.
    Kind(Option<String>),
    /// Those of one id, as [`super::views::id_digest`] names it.
    Id(String),
    /// The logs of a tenant.
    Tenant(TenantId),
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
#[derive(Debug)]
pub struct LogPage {
    /// In order.
    pub rows: Vec<LogEntry>,
    /// Whether the day has no more in the span.
    pub complete: bool,
}

/// An event or audit entry.
#[derive(Debug)]
pub struct LogEntry {
    /// When it happened, in milliseconds.
    pub at_ms: i64,
    /// Its place.
    pub row: Row,
    /// What it holds; empty where it is gone or damaged, or the span leaves it out. `None`: it was not read.
    pub facts: Option<Record>,
}

impl Span {
    /// The earliest and the latest time of what is left of it: the time of the last row bounds it as well.
    pub fn bounds(&self) -> (i64, i64) {
        match (&self.after, self.descending) {
            (None, _) => (self.low_ms, self.high_ms),
            (Some((at_ms, _)), true) => (self.low_ms, self.high_ms.min(*at_ms)),
            (Some((at_ms, _)), false) => (self.low_ms.max(*at_ms), self.high_ms),
        }
    }

    fn is_ahead(&self, entry: &LogEntry) -> bool {
        let Some((at_ms, member)) = &self.after else {
            return true;
        };
        let order = (entry.at_ms, &entry.row.member()).cmp(&(*at_ms, member));
        match self.descending {
            true => order.is_lt(),
            false => order.is_gt(),
        }
    }
}

impl Store {
    /// How many rows each of these days has in a span of time, including some that were seen; of a log, in all.
    pub async fn count_view(
        &self,
        view: View,
        index: &LogIndex,
        days: &[Day],
        span: &Span,
    ) -> Result<Vec<usize>, StoreError> {
        let range = |day: &Day| self.range(view, index, *day, span, None);
        let counts = self.read_each(OnFailure::Fail, days.iter().map(range));
        let count = |count: Result<_, StoreError>| match count {
            Err(damage) if damage.is_wrong_type() => {
                error!("a day of a log or view is left out of lists: {damage}");
                Ok(0)
            }
            count => count,
        };
        counts.await?.into_iter().map(count).collect()
    }

    /// Up to `rows` rows of each of these days, in order, beyond the row that was last seen.
    pub async fn read_view(
        &self,
        view: View,
        index: &LogIndex,
        days: &[Day],
        span: &Span,
        rows: usize,
    ) -> Result<Vec<LogPage>, StoreError> {
        let range = |day: &Day| self.range(view, index, *day, span, Some((0, rows)));
        let replies: Vec<Value> = self.read_all(days.iter().map(range)).await?;
        let mut pages = Vec::with_capacity(days.len());
        for (day, reply) in days.iter().zip(replies) {
            let mut page = read((view, index, *day), reply, span, rows);
            let mut skipped = rows;
            // All of them happened in the millisecond of the row that was last seen, and come before it.
            while page.rows.is_empty() && !page.complete {
                let range = self.range(view, index, *day, span, Some((skipped, rows)));
                page = read((view, index, *day), self.read(range).await?, span, rows);
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
        index: &LogIndex,
        day: Day,
        span: &Span,
        limit: Option<(usize, usize)>,
    ) -> Command {
        let (low, high) = span.bounds();
        let (keys, name) = (self.keys(), view.as_str());
        let (key, counting, low, high) = match index {
            LogIndex::Kind(kind) => {
                let key = keys.view(name, kind.as_deref(), day);
                (key, "ZCOUNT", low.to_string(), high.to_string())
            }
            LogIndex::Id(digest) => {
                let low = format!("[{}", id_member(digest, low.max(0), ""));
                // After all members of that millisecond: they continue with a blank.
                let high = format!("({}!", id_member(digest, high.max(-1), "").trim_end());
                (keys.view_ids(name, day), "ZLEXCOUNT", low, high)
            }
            LogIndex::Tenant(tenant) => return self.log_range(view, tenant, day, span, limit),
        };
        let Some((offset, rows)) = limit else {
            return command(counting, key, (low, high));
        };
        let by_id = matches!(index, LogIndex::Id(_));
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

    fn log_range(
        &self,
        view: View,
        tenant: &TenantId,
        day: Day,
        span: &Span,
        limit: Option<(usize, usize)>,
    ) -> Command {
        let key = self.log_key(view, tenant.partition(), tenant.as_str(), day);
        let Some((_, rows)) = limit else {
            return command("XLEN", key, NO_ARGS);
        };
        let last = span.after.as_ref().filter(|(at_ms, _)| {
            (span.low_ms..=span.high_ms).contains(at_ms) && Day::of_ms(*at_ms) == day
        });
        let last = last.and_then(|(_, member)| Some(format!("({}", Row::parse(member)?.entry)));
        let (low, high) = (
            span.low_ms.max(0).to_string(),
            span.high_ms
                .saturating_add(ENTRY_LATE_MS)
                .max(0)
                .to_string(),
        );
        let count = ("COUNT", rows);
        match span.descending {
            true => command("XREVRANGE", key, (last.unwrap_or(high), low, count)),
            false => command("XRANGE", key, (last.unwrap_or(low), high, count)),
        }
    }
}

fn read(
    (view, index, day): (View, &LogIndex, Day),
    reply: Value,
    span: &Span,
    wanted: usize,
) -> LogPage {
    let rows: Vec<Option<LogEntry>> = match index {
        LogIndex::Tenant(tenant) => {
            let entries = read_or_default::<Entries>(reply).0.into_iter();
            let row = |(entry, facts)| log_row((view, tenant, day), span, entry, facts);
            let rows: Vec<_> = entries.map(row).collect();
            let complete = rows.len() < wanted;
            return LogPage { rows, complete };
        }
        LogIndex::Id(_) => {
            let members: Vec<String> = read_or_default(reply);
            members.iter().map(|member| of_id(member)).collect()
        }
        LogIndex::Kind(_) => {
            let members: Vec<(String, f64)> = read_or_default(reply);
            let rows = members.into_iter();
            rows.map(|(member, at_ms)| view_row(at_ms as i64, &member))
                .collect()
        }
    };
    let complete = rows.len() < wanted;
    let rows = rows.into_iter().flatten();
    let rows = rows.filter(|row| span.is_ahead(row)).collect();
    LogPage { rows, complete }
}

fn of_id(member: &str) -> Option<LogEntry> {
    let (_, rest) = member.split_once(' ')?;
    let (at_ms, member) = rest.split_once(' ')?;
    view_row(at_ms.parse().ok()?, member)
}

/// `None` for a member that is none of ours: it hides no other.
fn view_row(at_ms: i64, member: &str) -> Option<LogEntry> {
    Some(LogEntry {
        at_ms,
        row: Row::parse(member)?,
        facts: None,
    })
}

/// The row of an entry of a log. Other damage than of time and type is logged when the entry is rendered.
fn log_row(
    (view, tenant, day): (View, &TenantId, Day),
    span: &Span,
    entry: EntryId,
    facts: Record,
) -> LogEntry {
    let kind = facts.get("type").filter(|_| view == View::Events);
    let kind = kind.map(str::to_owned);
    let at_ms = facts.integer("at_ms").ok();
    let is_damaged = at_ms.is_none() || kind.is_some() != (view == View::Events);
    if is_damaged {
        error!(
            tenant.id = %tenant, entry = %entry, log = view.as_str(),
            "the entry {entry} of a log of `{tenant}` is left out of lists: it has no readable type and time"
        );
    }
    let is_in_span = at_ms.is_some_and(|at_ms| (span.low_ms..=span.high_ms).contains(&at_ms));
    let latest_ms = span.high_ms.min(day.plus(1).start_ms() - 1);
    let row = Row {
        partition: tenant.partition(),
        entry,
        tenant: tenant.to_string(),
        kind,
    };
    LogEntry {
        at_ms: at_ms
            .unwrap_or(entry.ms.cast_signed())
            .min(latest_ms)
            .max(span.low_ms),
        row,
        facts: Some(facts)
            .filter(|_| is_in_span && !is_damaged)
            .or_else(|| Some(Record::default())),
    }
}
