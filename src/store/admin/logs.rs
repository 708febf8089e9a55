//! The logs of tenants, of events or of audit entries.

use crate::domain::ids::Partition;
use crate::domain::record::Record;
use crate::store::dispatcher::outbox::Entries;
use crate::store::dispatcher::views::{Row, View};
use crate::store::records::command;
use crate::store::{Day, OnFailure, Store, StoreError};

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
        let found = self.read_each::<Entries>(OnFailure::Fail, rows.iter().map(read));
        let facts = |entries: Result<Entries, _>| Some(entries.ok()?.0.pop()?.1);
        Ok(found.await?.into_iter().map(facts).collect())
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
