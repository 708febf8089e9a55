//! `get_event.lua`: one event by its id.

use crate::domain::event::EventId;
use crate::domain::ids::Partition;
use crate::domain::record::Record;
use crate::domain::tenant::SYSTEM;
use crate::store::signature::{FlatRecord, Refused, signature};
use crate::store::{Day, Lane, ScriptError, Store, StoreError, outcome};

signature! {
    /// Reads one event by what its id says.
    GET_EVENT: GetEvent -> GetEventReply = "admin/get_event", flags "no-writes,allow-oom";
    names { partition: Partition }
    keys of partition { read tenant_ids(); }
    builds { read events() }
    args {
        digest: &'a str,
        entry: String,
        /// '' for the one of that digest.
        tenant: &'a str,
        /// Days, the likeliest first.
        days: Vec<String>,
    }
    replies { not_found, found: Found { tenant: String, facts: FlatRecord } }
    writes "Nothing."
}

impl Store {
    /// The event of an id, with the tenant whose it is; `None` where there is none.
    pub async fn get_event(&self, id: &EventId) -> Result<Option<(String, Record)>, StoreError> {
        let ms = i64::try_from(id.entry.ms).unwrap_or(i64::MAX / 1_000);
        // An entry may be a little later than the time of its event, and so than the day of its log.
        let days = [0, -1].map(|later| Day::of_ms(ms).plus(later).to_string());
        let call = GetEvent {
            partition: id.partition,
            digest: &id.digest,
            entry: id.entry.to_string(),
            tenant: if id.is_of(SYSTEM) { SYSTEM } else { "" },
            days: days.into(),
        };
        match self.run(Lane::Request, &call).await {
            Err(ScriptError::Refused(Refused::NotFound, _)) => Ok(None),
            replied => {
                let GetEventReply::Found { tenant, facts } = outcome(replied)?;
                Ok(Some((tenant, facts.0)))
            }
        }
    }
}
