//! Events that are emitted when an index of their partition says that they are due, `report_store.lua` for events about the store
//! itself, and the probe that finds out how it is.

use std::time::Duration;

use super::auth_failed::Subject;
use super::emit::{AuditFailures, Denials, Emission, EmittedReply};
use super::poll::unreadable;
use super::traffic::{DetectBurn, DetectSpikes};
use crate::domain::api_key::secret::KeyId;
use crate::domain::ids::{Partition, TenantId};
use crate::domain::tenant::SYSTEM;
use crate::domain::words::words;
use crate::store::calls::of_all_nodes;
use crate::store::signature::signature;
use crate::store::{Keys, Lane, Lease, Store, StoreError};

signature! {
    /// Emits, once, that the time of an API key is over. Every reader takes its status from the clock, so the record stays as it
    /// is. A key that was revoked before emits nothing.
    EXPIRE_API_KEY: ExpireApiKey -> EmittedReply declared elsewhere = "dispatcher/expire_api_key", flags "allow-oom";
    keys of partition of fencing_token {
        read api_key(key_id), lease();
        write expiring(), event_log: events(tenant, day), outbox(), days(), tenant_key: tenant(tenant);
    }
    args {
        day,
        tenant: &'a TenantId,
        key_id: &'a KeyId,
        /// Of expiring.
        member: &'a str,
        context: &'a str,
        fencing_token: Lease,
    }
    replies { clock, fenced, early, flushed: Flushed { events: i64 } }
    writes "On flushed: the entry of expiring goes, in the same step as the event comes. Otherwise nothing."
}

/// Requests below which no share is unusual.
const SAMPLES_MIN: u32 = 10;

words! {
    /// An event that is emitted when it is due.
    DueEvent: "snake_case" {
        /// The expiry of an API key.
        KeyExpiry,
        /// Rollup of denied reservations and decisions, by tenant.
        Denials,
        /// Rollup of refused API keys, by key.
        AuthFailures,
        /// Rollup of audit entries of refused requests, by tenant; those of unknown callers, by partition.
        AuditFailures,
        /// Unusual shares of denials, refusals or expiries, by tenant.
        Spikes,
        /// Unusual charges, by ledger.
        BurnRates,
    }
}

impl DueEvent {
    /// The index of those that are due, by time.
    pub fn index(self) -> fn(&Keys, Partition) -> String {
        match self {
            Self::KeyExpiry => Keys::expiring,
            Self::Denials => Keys::denials_due,
            Self::AuthFailures => Keys::auth_failures_due,
            Self::AuditFailures => Keys::audit_failures_due,
            Self::Spikes => Keys::traffic_due,
            Self::BurnRates => Keys::burning,
        }
    }
}

impl Store {
    /// Emits one event, if it is due. `member`: its entry of the index.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::ErrorReply`] for a member that names nothing.
    pub async fn emit_due(
        &self,
        event: DueEvent,
        member: &str,
        fencing_token: Lease,
        context: &str,
    ) -> Result<Emission, StoreError> {
        let unreadable = || unreadable(member);
        match event {
            DueEvent::KeyExpiry => {
                let (tenant, key_id) = member.split_once(':').ok_or_else(unreadable)?;
                let call = ExpireApiKey {
                    tenant: &TenantId::parse(tenant).ok_or_else(unreadable)?,
                    key_id: &KeyId::parse(key_id).ok_or_else(unreadable)?,
                    member,
                    context,
                    fencing_token,
                };
                Emission::of(self.run(Lane::Background, &call).await)
            }
            DueEvent::Denials => {
                let call = Denials {
                    tenant: &TenantId::parse(member).ok_or_else(unreadable)?,
                    context,
                    fencing_token,
                };
                Emission::of(self.run(Lane::Background, &call).await)
            }
            DueEvent::AuthFailures => {
                let subject = Subject::parse(member).ok_or_else(unreadable)?;
                self.auth_failed(&subject, None, Some(fencing_token)).await
            }
            DueEvent::AuditFailures => {
                let call = AuditFailures {
                    tenant: member,
                    fencing_token,
                };
                Emission::of(self.run(Lane::Background, &call).await)
            }
            DueEvent::Spikes => {
                let call = DetectSpikes {
                    tenant: member,
                    fencing_token,
                    context,
                    samples_min: SAMPLES_MIN,
                };
                Emission::of(self.run(Lane::Background, &call).await)
            }
            DueEvent::BurnRates => {
                let (tenant, ledger) = member.split_once(' ').ok_or_else(unreadable)?;
                let (unit, scope) = ledger.split_once(' ').ok_or_else(unreadable)?;
                let call = DetectBurn {
                    tenant,
                    unit,
                    scope,
                    fencing_token,
                    context,
                };
                Emission::of(self.run(Lane::Background, &call).await)
            }
        }
    }
}

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
