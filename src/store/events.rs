//! `list_events.lua` and `get_event.lua`: reading the event logs of tenants.

use redis::Value;

use super::admin::{AdminError, caller_words, refused};
use super::outbox::entries;
use super::script::{GET_EVENT, LIST_EVENTS};
use super::views::Row;
use super::{Arg, Day, Lane, Reply, Store, StoreError};
use crate::domain::caller::Caller;
use crate::domain::event::EventId;
use crate::domain::ids::TenantId;
use crate::domain::log_entry::EntryId;
use crate::domain::reservation::Record;
use crate::domain::scope::ScopeFilter;
use crate::domain::tenant::SYSTEM;

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
    /// One step of a walk along the logs of a tenant.
    ///
    /// # Errors
    /// Refusals of the key.
    pub async fn list_events(
        &self,
        caller: &Caller,
        walk: &LogWalk<'_>,
    ) -> Result<LogRows, AdminError> {
        let (keys, partition) = (self.keys(), walk.tenant.partition());
        let (tenant, (key_hash, key_id)) = (walk.tenant.as_str(), caller_words(caller));
        let mut key_names = vec![
            keys.api_key(partition, key_id),
            keys.tenant(partition, tenant),
        ];
        let log = |day: &Day| keys.events(partition, tenant, *day);
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
            .call_on(Lane::Background, &LIST_EVENTS, &key_names, &args)
            .await?;
        let mut reply = Reply::new(&LIST_EVENTS, value)?;
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

    /// The event of an id, with the tenant whose it is; `None` where there is none.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn get_event(&self, id: &EventId) -> Result<Option<(String, Record)>, StoreError> {
        let (keys, partition) = (self.keys(), id.partition);
        let ms = i64::try_from(id.entry.ms).unwrap_or(i64::MAX / 1_000);
        // An entry may be a little later than the time that its event tells, and so than the day of its log.
        let days = [0, -1].map(|later| Day::of_ms(ms).plus(later).to_string());
        let log_prefix = keys.event_log_prefix(partition);
        let tenant = if id.is_of(SYSTEM) { SYSTEM } else { "" };
        let entry = id.entry.to_string();
        let mut args = vec![
            Arg::from(&log_prefix),
            Arg::from(&id.digest),
            Arg::from(&entry),
            Arg::from(tenant),
        ];
        args.extend(days.iter().map(Arg::from));
        let key_names = [keys.tenant_ids(partition)];
        let value = self.call(&GET_EVENT, &key_names, &args).await?;
        let mut reply = Reply::new(&GET_EVENT, value)?;
        match reply.next_str()?.as_str() {
            "found" => {
                let tenant = reply.next_str()?;
                Ok(Some((tenant, Record::from_pairs(reply.rest()?))))
            }
            "not_found" => Ok(None),
            other => Err(reply.unknown(other)),
        }
    }

    /// The facts that rows of a view lead to; `None` where they are gone. `days`: of their logs.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn facts_of(&self, rows: &[(&Row, Day)]) -> Result<Vec<Option<Record>>, StoreError> {
        let command = |(row, day): &(&Row, Day)| {
            let key = self.keys().events(row.partition, &row.tenant, *day);
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
}
