//! `get_event.lua`: one event by what its id tells.

use crate::domain::event::EventId;
use crate::domain::record::Record;
use crate::domain::tenant::SYSTEM;
use crate::store::scripts::GET_EVENT;
use crate::store::{Arg, Day, Reply, Store, StoreError};

impl Store {
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
}
