//! The logs of one tenant.

use std::collections::VecDeque;

use super::{LogEntry, LogStep, Route, days};
use crate::domain::caller::{RuntimeCaller, ScriptCaller};
use crate::domain::ids::TenantId;
use crate::domain::log_entry::EntryId;
use crate::domain::moment::Window;
use crate::domain::record::Record;
use crate::domain::scope::ScopeFilter;
use crate::store::admin::logs::{WalkLogs, WalkLogsReply};
use crate::store::dispatcher::views::{Row, View};
use crate::store::target::Target as _;
use crate::store::{Day, Lane, Store, StoreError};

/// Entries that one call reads with their facts, so that it stays below a millisecond.
const SCRIPT_ROWS: usize = 75;
/// Logs of days that one call looks into.
const LOG_DAYS: usize = 96;
/// How much later than the time in an entry its place in the stream may be, in milliseconds: no script runs as long.
const ENTRY_LATE_MS: i64 = 5_000;

/// The logs of one tenant.
pub(super) struct TenantLogs {
    view: View,
    tenant: TenantId,
    scope: String,
    days: VecDeque<Day>,
    low: String,
    high: String,
    descending: bool,
    /// The times between which entries are asked for. An entry may be later in its log than its time.
    window: Window,
    rows_first: usize,
    /// Whether a call has been made: the first checks the caller, so there is always one.
    has_begun: bool,
}

impl TenantLogs {
    pub fn new(tenant: TenantId, route: &Route<'_>, (low_ms, high_ms): (i64, i64)) -> Self {
        let window = Window {
            from_ms: Some(low_ms),
            to_ms: Some(high_ms),
        };
        let (low_ms, high_ms) = route.left_of((low_ms.max(0), high_ms));
        // The last page may have ended before these logs begin, or behind their end.
        let after = route.after();
        let after = after.filter(|(at_ms, _)| (low_ms..=high_ms).contains(at_ms));
        let beyond = after.and_then(|(_, member)| Row::parse(&member));
        let beyond = beyond.map(|row| format!("({}", row.entry));
        let late_ms = high_ms.saturating_add(ENTRY_LATE_MS).max(0);
        let (mut low, mut high) = (low_ms.to_string(), late_ms.to_string());
        match (beyond, route.descending) {
            (Some(beyond), true) => high = beyond,
            (Some(beyond), false) => low = beyond,
            (None, _) => {}
        }
        Self {
            view: route.view,
            tenant,
            scope: route.scope.unwrap_or_default().to_owned(),
            days: days(low_ms, high_ms, route.descending),
            low,
            high,
            descending: route.descending,
            window,
            rows_first: route.rows_first.min(SCRIPT_ROWS),
            has_begun: false,
        }
    }

    pub async fn step(
        &mut self,
        store: &Store,
        caller: Option<&RuntimeCaller>,
        scope_filter: &mut ScopeFilter,
    ) -> Result<LogStep, StoreError> {
        let has_begun = std::mem::replace(&mut self.has_begun, true);
        let some: Vec<Day> = self.days.iter().take(LOG_DAYS).copied().collect();
        let (partition, tenant) = (self.tenant.partition(), self.tenant.as_str());
        let log = |day: &Day| store.log_key(self.view, partition, tenant, *day);
        let call = WalkLogs {
            caller: caller.map_or(ScriptCaller::TRUSTED, ScriptCaller::from),
            logs: some.iter().map(log).collect(),
            tenant: &self.tenant,
            scope: &self.scope,
            direction: if self.descending { "desc" } else { "asc" },
            low: &self.low,
            high: &self.high,
            rows: if has_begun {
                SCRIPT_ROWS
            } else {
                self.rows_first
            },
        };
        let listed = self
            .tenant
            .outcome(store.run(Lane::Background, &call).await)?;
        let WalkLogsReply::Listed {
            scope_filter: of_key,
            complete,
            log_entry_facts: rows,
        } = listed;
        *scope_filter = of_key;
        match rows.last() {
            Some((log, entry, _)) if !complete => {
                let passed = usize::try_from(log - 1).unwrap_or(0);
                self.days.drain(..passed);
                match self.descending {
                    true => self.high = format!("({entry}"),
                    false => self.low = format!("({entry}"),
                }
            }
            _ => drop(self.days.drain(..some.len())),
        }
        let entries = rows.into_iter();
        let entries = entries.filter_map(|(_, entry, facts)| self.entry(entry, facts));
        Ok(LogStep {
            entries: entries.collect(),
            complete: self.is_complete(),
        })
    }

    /// Whether no log is left.
    pub fn is_complete(&self) -> bool {
        self.has_begun && self.days.is_empty()
    }

    /// Reads the time and, of an event, the type; `None` if either is unreadable. Other damage is logged when the entry is
    /// rendered.
    fn entry(&self, entry: EntryId, facts: Record) -> Option<LogEntry> {
        let is_event = self.view == View::Events;
        let kind = facts.get("type").filter(|_| is_event).map(str::to_owned);
        let at_ms = facts.integer("at_ms").ok();
        if at_ms.is_none() || kind.is_some() != is_event {
            tracing::error!(
                tenant.id = %self.tenant, entry = %entry, log = self.view.as_str(),
                "the entry {entry} of a log of `{}` is left out of lists: it has no readable type and time", self.tenant
            );
            return None;
        }
        Some(LogEntry {
            at_ms: at_ms.filter(|at_ms| self.window.contains(*at_ms))?,
            row: Row {
                partition: self.tenant.partition(),
                entry,
                tenant: self.tenant.to_string(),
                kind,
            },
            facts: Some(facts),
        })
    }
}
