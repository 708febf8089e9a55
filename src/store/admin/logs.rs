//! `walk_logs.lua`: reading the logs of tenants, of events or of audit entries.

use redis::Value;

use crate::domain::caller::RuntimeCaller;
use crate::domain::ids::{Partition, TenantId};
use crate::domain::log_entry::EntryId;
use crate::domain::record::Record;
use crate::domain::scope::ScopeFilter;
use crate::store::admin::{AdminError, refused};
use crate::store::dispatcher::outbox::entries;
use crate::store::dispatcher::views::{Row, View};
use crate::store::scripts::WALK_LOGS;
use crate::store::{Arg, Day, Lane, Reply, Store, StoreError};

/// A step of a walk along the logs of a tenant.
#[derive(Debug)]
pub struct LogWalk<'a> {
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

/// What a step came to.
#[derive(Debug)]
pub struct LogRows {
    /// The restriction of the caller's key.
    pub scope_filter: ScopeFilter,
    /// Whether no entry is left.
    pub complete: bool,
    /// Number of the log in the walk, entry and facts.
    pub rows: Vec<(usize, EntryId, Record)>,
}

impl Store {
    /// One step of a walk along the logs of a tenant: of events or of audit entries, as `view` says. `caller`: the holder of
    /// a tenant's key, who needs `events:read`; `None` where the admin key was found right.
    ///
    /// # Errors
    /// Refusals of the key.
    pub async fn walk_logs(
        &self,
        view: View,
        caller: Option<&RuntimeCaller>,
        walk: &LogWalk<'_>,
    ) -> Result<LogRows, AdminError> {
        let (keys, partition) = (self.keys(), walk.tenant.partition());
        let tenant = walk.tenant.as_str();
        let (key_hash, key_id) = match caller {
            Some(caller) => (caller.key_hash.as_str(), caller.key_id.as_str()),
            None => ("", ""),
        };
        let mut key_names = vec![
            keys.api_key(partition, key_id),
            keys.tenant(partition, tenant),
        ];
        let log = |day: &Day| self.log_key(view, partition, tenant, *day);
        key_names.extend(walk.days.iter().map(log));
        let args = [
            Arg::from(key_hash),
            Arg::from(tenant),
            Arg::from(walk.scope),
            Arg::from(if walk.descending { "desc" } else { "asc" }),
            Arg::from(walk.bounds.0),
            Arg::from(walk.bounds.1),
            Arg::from(walk.rows as i64),
        ];
        let value = self
            .call_on(Lane::Background, &WALK_LOGS, &key_names, &args)
            .await?;
        let mut reply = Reply::new(&WALK_LOGS, value)?;
        match reply.next_str()?.as_str() {
            "listed" => {}
            other => return Err(refused(other, reply)),
        }
        let scope_filter = ScopeFilter::from_stored(&reply.next_str()?);
        let complete = reply.next_i64()? == 1;
        let mut rows = Vec::with_capacity(reply.len() / 3);
        while !reply.is_empty() {
            let log = usize::try_from(reply.next_i64()? - 1).unwrap_or(0);
            let entry = reply.next_str()?;
            let entry = EntryId::parse(&entry).ok_or_else(|| reply.unknown(&entry))?;
            let facts = Record::from_pairs(reply.next_array()?.rest()?);
            rows.push((log, entry, facts));
        }
        Ok(LogRows {
            scope_filter,
            complete,
            rows,
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
        let command = |(row, day): &(&Row, Day)| {
            let key = self.log_key(view, row.partition, &row.tenant, *day);
            let (entry, mut read) = (row.entry.to_string(), redis::cmd("XRANGE"));
            read.arg(&key).arg(&entry).arg(&entry);
            (key, read)
        };
        let commands: Vec<_> = rows.iter().map(command).collect();
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
