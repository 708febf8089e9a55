//! `report_store.lua`: events about the store itself; and the probe that finds out how it is.

use std::time::Duration;

use crate::domain::ids::Partition;
use crate::domain::tenant::SYSTEM;
use crate::store::calls::of_all_nodes;
use crate::store::dispatcher::emit::{Emission, EmittedReply};
use crate::store::signature::signature;
use crate::store::{Lane, Store, StoreError};

signature! {
    /// Emits events about the store, unless any dispatcher has emitted some of this kind within the pause.
    REPORT_STORE: ReportStore -> EmittedReply declared elsewhere = "dispatcher/report_store", flags "allow-oom";
    names { partition: Partition }
    keys of partition { write store_reports(), event_log: events(system, day), outbox(), days(); }
    args {
        day,
        system: &'a str,
        /// outage or latency.
        kind: &'a str,
        pause_ms: i64,
        context: &'a str,
        /// Type, message, severity and details of each.
        events: &'a [StoreEvent],
    }
    replies { clock, flushed: Flushed { count: i64 } }
    writes "On flushed: the events, and when they were emitted."
}

/// Type and message; severity and details of an event about the store.
pub(crate) type StoreEvent = ((&'static str, &'static str), (&'static str, String));

impl Store {
    /// Emits events about the store, unless some of this kind were emitted within `pause`; how many.
    pub(crate) async fn report_store(
        &self,
        kind: &str,
        pause: Duration,
        context: &str,
        events: &[StoreEvent],
    ) -> Result<i64, StoreError> {
        let call = ReportStore {
            partition: Partition::FIRST,
            system: SYSTEM,
            kind,
            pause_ms: i64::try_from(pause.as_millis()).unwrap_or(i64::MAX),
            context,
            events,
        };
        match Emission::of(self.run(Lane::Background, &call).await)? {
            Emission::Flushed(count) => Ok(count),
            Emission::Early | Emission::Fenced => Ok(0),
        }
    }

    /// Sends `PING` to each node that holds data, to all at once.
    ///
    /// # Errors
    /// When a node does not reply within `limit`.
    pub async fn probe(&self, limit: Duration) -> Result<(), StoreError> {
        let ping = redis::cmd("PING");
        of_all_nodes(self.send_to_nodes(Lane::Request, &ping, limit).await?).map(drop)
    }
}
