//! `count_traffic.lua` and `detect_spikes.lua`: outcomes of tenants' requests of late, and when these are unusual.

use std::collections::{BTreeMap, HashMap};

use crate::domain::amount::Unit;
use crate::domain::ids::{Partition, TenantId};
use crate::domain::tenant::SYSTEM;
use crate::store::dispatcher::emit::EmittedReply;
use crate::store::signature::signature;
use crate::store::{Lane, Lease, Store, StoreError, outcome};

/// Name of a tenant; decided, denied and ended; expired, tried and refused.
type NamedTally = (String, (u64, u64, u64), (u64, u64, u64));

signature! {
    /// Counts what a replica saw lately of some tenants of a partition. burning: those of whom burn rates are watched.
    COUNT_TRAFFIC: CountTraffic -> CountTrafficReply = "dispatcher/count_traffic";
    names { partition: Partition }
    keys of partition { read thresholds(); write traffic_due(); }
    each { write traffic: traffic }
    builds { read tenant() }
    args {
        /// For each of the keys: its tenant; decided, denied, ended and expired, tried and refused.
        tallies: &'a [NamedTally],
    }
    replies { counted: Counted { burning: Vec<String> } }
    writes "The counts of the tenants; in the index those of whom something is unusual."
}

signature! {
    /// Judges the shares of denials, expiries and refused keys of one tenant, or of no tenant, and emits an event for each limit
    /// that is exceeded since the evaluation before. However often it is called, the state of a limit changes only with its
    /// event, and an evaluation before its time does nothing.
    DETECT_SPIKES: DetectSpikes -> EmittedReply declared elsewhere = "dispatcher/detect_spikes", flags "allow-oom";
    keys of partition of fencing_token {
        read lease(), thresholds();
        write traffic(tenant), traffic_due(), event_log: events(tenant, day), outbox(), days(), tenant_key: tenant(tenant);
    }
    args {
        day,
        /// Or __system__.
        tenant: &'a str,
        fencing_token: Lease,
        context: &'a str,
        /// With fewer samples nothing is unusual.
        samples_min: u32,
    }
    replies { clock, fenced, early, flushed: Flushed { count: i64 } }
    writes "On flushed: the events, the state of the limits; what is too old goes."
}

/// Outcomes of a tenant's requests and reservations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Creates and decisions.
    pub decided: u64,
    /// Those that were denied.
    pub denied: u64,
    /// Reservations that were committed or released.
    pub ended: u64,
    /// Attempts with an API key.
    pub tried: u64,
    /// Those that were refused.
    pub refused: u64,
}

impl Tally {
    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        self.decided += other.decided;
        self.denied += other.denied;
        self.ended += other.ended;
        self.tried += other.tried;
        self.refused += other.refused;
    }
}

/// Tenants of one call.
const TENANTS: usize = 50;

/// Result of storing counts.
#[derive(Debug)]
pub struct CountedTraffic {
    /// Counts that were surely not stored.
    pub left: Vec<(Option<TenantId>, Tally)>,
    /// Tenants of whom burn rates are watched, among those that were counted.
    pub burning: Vec<String>,
    /// The first failure.
    pub outcome: Result<(), StoreError>,
}

impl Store {
    /// Counts what was seen of tenants; that of `None` is of no tenant.
    pub async fn count_traffic(&self, seen: Vec<(Option<TenantId>, Tally)>) -> CountedTraffic {
        let mut by_partition: BTreeMap<Partition, Vec<_>> = BTreeMap::new();
        for one in seen {
            let tenant = one.0.as_ref();
            let partition = tenant.map_or(Partition::FIRST, TenantId::partition);
            by_partition.entry(partition).or_default().push(one);
        }
        let mut counted = CountedTraffic {
            left: Vec::new(),
            burning: Vec::new(),
            outcome: Ok(()),
        };
        for (partition, tenants) in by_partition {
            for some in tenants.chunks(TENANTS) {
                // While Redis is out of reach, the rest need not wait for its deadline too.
                if counted.outcome.is_err() {
                    counted.left.extend_from_slice(some);
                    continue;
                }
                match self.count_some(partition, some).await {
                    Ok(burning) => counted.burning.extend(burning),
                    Err(error) => {
                        // Counts that may have been stored must not be sent again.
                        if !matches!(&error, StoreError::Unavailable(why) if why.effect_unknown()) {
                            counted.left.extend_from_slice(some);
                        }
                        counted.outcome = Err(error);
                    }
                }
            }
        }
        counted
    }

    async fn count_some(
        &self,
        partition: Partition,
        some: &[(Option<TenantId>, Tally)],
    ) -> Result<Vec<String>, StoreError> {
        let name =
            |tenant: &Option<TenantId>| tenant.as_ref().map_or(SYSTEM, TenantId::as_str).to_owned();
        let tallies: Vec<NamedTally> = some
            .iter()
            .map(|(tenant, it)| {
                let reservations = (it.decided, it.denied, it.ended);
                (name(tenant), reservations, (0, it.tried, it.refused))
            })
            .collect();
        let key = |(tenant, ..): &NamedTally| self.keys().traffic(partition, tenant);
        let call = CountTraffic {
            partition,
            traffic: tallies.iter().map(key).collect(),
            tallies: &tallies,
        };
        let CountTrafficReply::Counted { burning } =
            outcome(self.run(Lane::Background, &call).await)?;
        Ok(burning)
    }
}

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

/// The charges of a tenant's ledgers, by unit and scope.
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
