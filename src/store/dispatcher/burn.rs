//! `count_burn.lua` and `detect_burn.lua`: what ledgers were charged of late, and when that is unusual.

use std::collections::HashMap;

use crate::domain::amount::Unit;
use crate::domain::ids::TenantId;
use crate::store::dispatcher::emit::EmittedReply;
use crate::store::signature::signature;
use crate::store::{Lane, Lease, Store, StoreError, outcome};

signature! {
    /// Counts what a replica saw charged of late to some ledgers of a tenant, as far as they are watched.
    COUNT_BURN: CountBurn -> CountBurnReply = "dispatcher/count_burn";
    keys of partition of tenant { read tenant_key: tenant(tenant); write burning(); }
    each { write burn: burn }
    args {
        tenant: &'a TenantId,
        /// For each of the keys: unit and scope, and what was charged.
        charges: &'a [(String, String)],
    }
    replies { counted: Counted }
    writes "The counts of the ledgers that are watched, their time in the index."
}

signature! {
    /// Compares what a ledger was charged in each window that is watched with what is usual, and emits an event for each limit that is
    /// exceeded since the evaluation before. However often it is called, the state of a limit changes only with its event.
    DETECT_BURN: DetectBurn -> EmittedReply declared elsewhere = "dispatcher/detect_burn", flags "allow-oom";
    keys of partition of fencing_token {
        read lease(), budget(tenant, unit, scope);
        write burn(tenant, unit, scope), burning(), event_log: events(tenant, day), outbox(), days(), tenant_key: tenant(tenant);
    }
    args {
        day,
        tenant: &'a str,
        unit: &'a str,
        scope: &'a str,
        fencing_token: Lease,
        context: &'a str,
    }
    replies { clock, fenced, early, flushed: Flushed { count: i64 } }
    writes "On flushed: the events, the state of the limits, the time in the index."
}

/// What the ledgers of a tenant were charged, by unit and scope.
pub type Charges = HashMap<(Unit, String), u128>;

/// Ledgers of one call.
const LEDGERS: usize = 20;

impl Store {
    /// Counts what a tenant's ledgers were charged.
    ///
    /// # Errors
    /// [`StoreError`]; the rest is not counted then.
    pub async fn count_burn(&self, tenant: &TenantId, charges: &Charges) -> Result<(), StoreError> {
        let partition = tenant.partition();
        let (mut keys, mut ledgers) = (Vec::new(), Vec::new());
        for ((unit, scope), amount) in charges {
            keys.push(
                self.keys()
                    .burn(partition, tenant.as_str(), unit.as_str(), scope),
            );
            ledgers.push((format!("{unit} {scope}"), amount.to_string()));
        }
        for (keys, ledgers) in keys.chunks(LEDGERS).zip(ledgers.chunks(LEDGERS)) {
            let call = CountBurn {
                tenant,
                burn: keys.to_vec(),
                charges: ledgers,
            };
            let CountBurnReply::Counted = outcome(self.run(Lane::Background, &call).await)?;
        }
        Ok(())
    }
}
