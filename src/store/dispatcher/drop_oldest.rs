//! `drop_oldest.lua`: keeps the audit log of unknown callers to a number of entries.

use super::index_rows::NewRow;
use super::lease::Lease;
use super::views::{View, id_member};
use crate::store::records::command;
use crate::store::signature::signature;
use crate::store::{Day, Lane, Store, StoreError, unless_fenced};

signature! {
    /// Removes the oldest entries of an audit chain, and appends the entry that says how many went and how many requests they stood
    /// for. The chain then begins behind them: it keeps number and hash of the last that went, and how many went in all.
    ///
    /// kept: the entries at the beginning of the log are not the oldest of the chain, the one behind them is not sealed, or there
    /// is none; then they stay.
    DROP_OLDEST: DropOldest -> DropOldestReply = "dispatcher/drop_oldest", flags "allow-oom";
    names { oldest_day: Day }
    keys of partition of fencing_token {
        read lease();
        write oldest_log: audit(tenant, oldest_day), seals(tenant, oldest_day), audit_log: audit(tenant, day), chain(tenant),
            unsealed(), days();
    }
    args {
        day,
        tenant: &'a str,
        fencing_token: Lease,
        /// How many entries go at most.
        rows: usize,
        audit: &'a [(&'a str, &'a str)],
    }
    replies { clock, fenced, kept: Kept, dropped: Dropped { count: u64 } }
    writes "On dropped: the entries and their seals go; the chain, the entry, the registry of days."
}

impl Store {
    /// Removes up to `rows` of the oldest entries of a chain, the first ones of the log of `oldest_day`; returns how many. `None`
    /// where another dispatcher holds the lease by now.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Script`] where a key holds something else.
    pub async fn drop_oldest(
        &self,
        lease: Lease,
        tenant: &str,
        oldest_day: Day,
        rows: usize,
        audit: &[(&str, &str)],
    ) -> Result<Option<u64>, StoreError> {
        let call = DropOldest {
            oldest_day,
            tenant,
            fencing_token: lease,
            rows,
            audit,
        };
        let reply = unless_fenced(self.run(Lane::Background, &call).await)?;
        Ok(reply.map(|reply| match reply {
            DropOldestReply::Kept => 0,
            DropOldestReply::Dropped { count } => count,
        }))
    }

    /// Removes rows from the indexes of a view; those that are not there count as removed.
    ///
    /// # Errors
    /// [`StoreError`] when Redis is unavailable.
    pub async fn remove_rows(&self, view: View, rows: &[NewRow]) -> Result<(), StoreError> {
        let (keys, view) = (self.keys(), view.as_str());
        let mut commands = Vec::new();
        for row in rows {
            let member = row.row.member();
            let names = row.ids.iter();
            let ids: Vec<_> = names.map(|id| id_member(id, row.at_ms, &member)).collect();
            if !ids.is_empty() {
                commands.push(command("ZREM", keys.view_ids(view, row.day), ids));
            }
            let kinds = row.kinds.iter().map(|kind| Some(kind.as_str()));
            for kind in kinds.chain([None]) {
                commands.push(command("ZREM", keys.view(view, kind, row.day), &member));
            }
        }
        self.read_all::<u64>(commands).await?;
        Ok(())
    }
}
