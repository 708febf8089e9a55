//! The nodes that hold data: whether they respond, and whether Redis at a known address was restarted or replaced. Failovers that
//! Sentinel or a cluster announces are noticed by the driver.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::timeout;
use tracing::warn;

use super::calls::of_reachable_nodes;
use super::runtime::read::Get;
use super::{Lane, ScriptError, Store, StoreError};
use crate::domain::caller::ScriptCaller;
use crate::domain::ids::{Partition, ReservationId};
use crate::driver::cluster::slot_of;

/// The run id of each address, as last seen.
#[derive(Debug, Default)]
pub(super) struct Primaries {
    run_ids: Mutex<HashMap<String, String>>,
}

impl Primaries {
    /// Whether the address had another run id before.
    fn has_changed(&self, address: &str, run_id: &str) -> bool {
        let mut run_ids = self.run_ids.lock();
        let before = run_ids.insert(address.to_owned(), run_id.to_owned());
        before.is_some_and(|before| before != run_id)
    }
}

impl Store {
    /// Sends `PING` to each node that holds data, to all at once and on the request path.
    ///
    /// # Errors
    /// A failure, within `limit`, when no node replies; one node is enough to serve its tenants.
    pub async fn ping(&self, limit: Duration) -> Result<(), StoreError> {
        let (ping, limit) = (redis::cmd("PING"), limit.min(self.timeout()));
        let replies = self.send_to_nodes(Lane::Request, &ping, limit).await?;
        let failed = replies.iter().filter(|(_, reply)| reply.is_err()).count();
        self.metrics()
            .unreachable_primaries
            .set(i64::try_from(failed).unwrap_or(i64::MAX));
        of_reachable_nodes(replies).map(drop)
    }

    /// Runs a script that only reads, as each request runs one: an ACL may allow commands and forbid scripts.
    ///
    /// # Errors
    /// The refusal of Redis. That its node does not reply within `limit` is no error; see [`Store::ping`].
    pub async fn check_scripts(&self, limit: Duration) -> Result<(), StoreError> {
        let Some(no_reservation) = ReservationId::parse("readiness") else {
            return Ok(());
        };
        let call = Get {
            partition: Partition::FIRST,
            caller: ScriptCaller::TRUSTED,
            reservation_id: Some(no_reservation.as_str()),
            event_id: None,
            names: &[],
        };
        match timeout(limit, self.run(Lane::Request, &call)).await {
            Ok(Err(ScriptError::Store(error))) if !matches!(error, StoreError::Unavailable(_)) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Whether one node has both keys, so that the same clock dated their entries.
    ///
    /// # Errors
    /// [`StoreError`] when the owner of a slot is not known in time.
    pub(crate) async fn share_a_node(&self, one: &str, other: &str) -> Result<bool, StoreError> {
        let routing = self.begin_call()?;
        let connection = &self.inner.connection;
        let one = connection.route(slot_of(one.as_bytes()), routing.deadline);
        let one = one.await?;
        let other = connection.route(slot_of(other.as_bytes()), routing.deadline);
        Ok(Arc::ptr_eq(&one, &other.await?))
    }

    /// Compares the run id that `INFO server` of a node states with the last one; counts and logs a change.
    pub(super) fn note_run_id(&self, address: &str, info: &str) {
        let run_id = info.lines().find_map(|line| line.strip_prefix("run_id:"));
        if run_id.is_some_and(|run_id| self.inner.primaries.has_changed(address, run_id.trim())) {
            self.metrics().primary_changes.inc();
            warn!(
                redis.address = %address,
                "Redis at {address} was restarted or replaced: unsaved and unreplicated writes are lost. Run \
                 `budget-authority ledger verify` (docs/durability.md)"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_process_at_a_known_address_is_a_change() {
        let primaries = Primaries::default();
        for (address, run_id, changed) in [
            ("a:1", "x", false),
            ("a:1", "x", false),
            ("b:1", "y", false),
            ("a:1", "z", true),
            ("a:1", "z", false),
            ("b:1", "y", false),
        ] {
            assert_eq!(
                primaries.has_changed(address, run_id),
                changed,
                "{address} {run_id}"
            );
        }
    }
}
