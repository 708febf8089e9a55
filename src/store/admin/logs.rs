//! `walk_logs.lua`: reading the logs of tenants, of events or of audit entries.

use redis::Value;

use crate::domain::caller::ScriptCaller;
use crate::domain::ids::{Partition, TenantId};
use crate::domain::log_entry::EntryId;
use crate::domain::record::Record;
use crate::domain::scope::ScopeFilter;
use crate::store::dispatcher::outbox::entries;
use crate::store::dispatcher::views::{Row, View};
use crate::store::records::command;
use crate::store::signature::signature;
use crate::store::{Day, OnFailure, Store, StoreError};

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
        key_hash of caller,
        tenant: &'a TenantId,
        /// The scope filter of the request, or ''.
        scope: &'a str,
        direction: &'a str,
        /// Lowest entry, as XRANGE has it.
        low: &'a str,
        /// Highest entry.
        high: &'a str,
        rows: usize,
    }
    replies {
        unauthorized, forbidden, scope_forbidden,
        listed: Listed { scope_filter: ScopeFilter, complete: bool, log_entry_facts: Vec<(u64, EntryId, Record)> },
    }
    writes "Nothing."
}

impl Store {
    /// The facts that rows of a view lead to; `None` where they are gone. `days`: of their logs.
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
        let replies = self.send_each(&commands, OnFailure::Fail).await?;
        let facts = |reply: Result<Value, StoreError>| {
            let (_, facts) = entries(reply.ok()?).pop()?;
            Some(facts)
        };
        Ok(replies.into_iter().map(facts).collect())
    }

    /// The log of a day, of events or of audit entries.
    pub(crate) fn log_key(
        &self,
        view: View,
        partition: Partition,
        tenant: &str,
        day: Day,
    ) -> String {
        match view {
            View::Events => self.keys().events(partition, tenant, day),
            View::Audit => self.keys().audit(partition, tenant, day),
        }
    }
}
