//! `walk_logs.lua`: reading the logs of tenants, of events or of audit entries.

use redis::Value;

use crate::domain::caller::{RuntimeCaller, ScriptCaller};
use crate::domain::ids::{Partition, TenantId};
use crate::domain::log_entry::EntryId;
use crate::domain::record::Record;
use crate::domain::scope::ScopeFilter;
use crate::store::dispatcher::outbox::entries;
use crate::store::dispatcher::views::{Row, View};
use crate::store::records::command;
use crate::store::signature::signature;
use crate::store::{Day, Lane, OperationError, Store, StoreError};

signature! {
    /// Reads a number of entries of a tenant's logs in their order, from a position on: events, or audit entries for the admin
    /// key alone.
    ///
    /// complete: no row is left in any log. A key that holds no stream holds no entries.
    WALK_LOGS: WalkLogs -> WalkLogsReply = "admin/walk_logs", flags "no-writes,allow-oom";
    names { caller: ScriptCaller<'a>, key_id of caller }
    keys of partition of tenant { read api_key(key_id), tenant_key: tenant(tenant); }
    each { read logs: events | audit }
    args {
        /// Empty for the admin key.
        key_hash of caller,
        tenant: &'a TenantId,
        /// What the request filters by, or ''.
        scope: &'a str,
        /// asc or desc.
        direction: &'a str,
        /// Lowest entry, as XRANGE has it.
        low: &'a str,
        /// Highest entry.
        high: &'a str,
        /// At most.
        rows: usize,
    }
    replies {
        unauthorized, forbidden, scope_forbidden,
        listed: Listed { scope_filter: ScopeFilter, complete: bool, log_entry_facts: Vec<(i64, EntryId, Record)> },
    }
    writes "Nothing."
}

/// Some entries of the logs of a tenant.
#[derive(Debug)]
pub struct LogRange<'a> {
    /// Whose.
    pub tenant: &'a TenantId,
    /// A scope or the beginning of one that the caller's key must be allowed to see; may be empty.
    pub scope: &'a str,
    /// In walking order.
    pub days: &'a [Day],
    /// Latest first.
    pub descending: bool,
    /// The bounds of the entries: `-`, `+`, an id, or `(` and an id for beyond it.
    pub bounds: (&'a str, &'a str),
    /// Entries at most.
    pub rows: usize,
}

/// The entries that were found.
#[derive(Debug)]
pub struct LogRows {
    /// The restriction of the caller's key.
    pub scope_filter: ScopeFilter,
    /// Whether no entry is left.
    pub complete: bool,
    /// Place of the log in [`LogRange::days`], entry and facts.
    pub rows: Vec<(usize, EntryId, Record)>,
}

impl Store {
    /// Entries of the logs of a tenant: events or audit entries, as `view` says. `caller`: the holder of
    /// a tenant's key, who needs `events:read`; `None` where the admin key was found right.
    ///
    /// # Errors
    /// Refusals of the key.
    pub async fn walk_logs(
        &self,
        view: View,
        caller: Option<&RuntimeCaller>,
        range: &LogRange<'_>,
    ) -> Result<LogRows, OperationError> {
        let (partition, tenant) = (range.tenant.partition(), range.tenant.as_str());
        let log = |day: &Day| self.log_key(view, partition, tenant, *day);
        let call = WalkLogs {
            caller: caller.map_or(ScriptCaller::TRUSTED, ScriptCaller::from),
            logs: range.days.iter().map(log).collect(),
            tenant: range.tenant,
            scope: range.scope,
            direction: if range.descending { "desc" } else { "asc" },
            low: range.bounds.0,
            high: range.bounds.1,
            rows: range.rows,
        };
        let WalkLogsReply::Listed {
            scope_filter,
            complete,
            log_entry_facts: rows,
        } = self.run_for(Lane::Background, range.tenant, &call).await?;
        let row = |(log, entry, facts): (i64, EntryId, Record)| {
            (usize::try_from(log - 1).unwrap_or(0), entry, facts)
        };
        Ok(LogRows {
            scope_filter,
            complete,
            rows: rows.into_iter().map(row).collect(),
        })
    }

    /// The facts that rows of a view lead to; `None` where they are gone. `days`: of their logs.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn facts_of(
        &self,
        view: View,
        rows: &[(&Row, Day)],
    ) -> Result<Vec<Option<Record>>, StoreError> {
        let read = |(row, day): &(&Row, Day)| {
            let key = self.log_key(view, row.partition, &row.tenant, *day);
            let entry = row.entry.to_string();
            command("XRANGE", key, (&entry, &entry))
        };
        let commands: Vec<_> = rows.iter().map(read).collect();
        let replies = self.query_each(&commands).await?;
        let facts = |reply: Result<Value, StoreError>| {
            let (_, facts) = entries(reply.ok()?).pop()?;
            Some(facts)
        };
        Ok(replies.into_iter().map(facts).collect())
    }

    fn log_key(&self, view: View, partition: Partition, tenant: &str, day: Day) -> String {
        match view {
            View::Events => self.keys().events(partition, tenant, day),
            View::Audit => self.keys().audit(partition, tenant, day),
        }
    }
}
