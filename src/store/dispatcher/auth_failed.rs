//! `auth_failed.lua`: emits the events of refused API keys.

use crate::domain::api_key::secret::KeyId;
use crate::domain::ids::{Partition, TenantId};
use crate::domain::tenant::SYSTEM;
use crate::store::dispatcher::emit::{Emission, EmittedReply};
use crate::store::signature::signature;
use crate::store::{Lane, Lease, Store, StoreError};

signature! {
    /// Emits the event of a refused API key, at most once per key and minute, and once for all keys that are nobody's. Further
    /// failures are counted, exactly, and emitted by the first call of a later minute: a replica's, or the dispatcher's, which
    /// has a fencing token and no failures to add. The event describes the first failure that it counts.
    AUTH_FAILED: AuthFailed -> EmittedReply declared elsewhere = "dispatcher/auth_failed", flags "allow-oom";
    names { partition: Partition, key_id: &'a str }
    keys of partition {
        read api_key(key_id), lease();
        write auth_failures(member), auth_failures_due(), event_log: events(tenant, day), outbox(), days(),
            tenant_key: tenant(tenant);
    }
    args {
        day,
        tenant: &'a str,
        /// Of auth_failures_due.
        member: &'a str,
        /// '' for a replica.
        fencing_token: Option<Lease>,
        /// Failures to be counted.
        added: u64,
        /// The request cause of the first failure, lines of name and value.
        context: &'a str,
        /// failure_reason of the first failure.
        reason: &'a str,
    }
    replies { clock, fenced, early, flushed: Flushed { events: i64 } }
    writes "On flushed: the event, or the count."
}

/// In a key's place: all that are nobody's.
const UNKNOWN: &str = "unknown";

/// The subject whose failures share an event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A key that has a record.
    Key {
        /// The tenant of the key.
        tenant: TenantId,
        /// The key.
        key_id: KeyId,
    },
    /// All keys without one. Their events are in the first partition, whichever they name: a client could name them all.
    Unknown,
}

/// Failures of one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failures {
    /// How many.
    pub count: u64,
    /// The cause of the first.
    pub context: String,
    /// The reason of the first; a word of events.
    pub reason: &'static str,
}

impl Subject {
    fn partition(&self) -> Partition {
        match self {
            Self::Key { tenant, .. } => tenant.partition(),
            Self::Unknown => Partition::FIRST,
        }
    }

    fn names(&self) -> (&str, &str) {
        match self {
            Self::Key { tenant, key_id } => (tenant.as_str(), key_id.as_str()),
            Self::Unknown => (SYSTEM, UNKNOWN),
        }
    }

    /// Reads the member of the index: `<tenant>:<key_id>`.
    pub(in crate::store) fn parse(member: &str) -> Option<Self> {
        let (tenant, key_id) = member.split_once(':')?;
        if (tenant, key_id) == (SYSTEM, UNKNOWN) {
            return Some(Self::Unknown);
        }
        Some(Self::Key {
            tenant: TenantId::parse(tenant)?,
            key_id: KeyId::parse(key_id)?,
        })
    }
}

impl Store {
    /// Emits failures, or counts them where the minute has had its event; without any, for a dispatcher, those that were only
    /// counted. Off the request path.
    pub async fn auth_failed(
        &self,
        subject: &Subject,
        failures: Option<&Failures>,
        fencing_token: Option<Lease>,
    ) -> Result<Emission, StoreError> {
        let (tenant, key_id) = subject.names();
        let call = AuthFailed {
            partition: subject.partition(),
            key_id,
            tenant,
            member: &format!("{tenant}:{key_id}"),
            fencing_token,
            added: failures.map_or(0, |failures| failures.count),
            context: failures.map_or("", |failures| failures.context.as_str()),
            reason: failures.map_or("", |failures| failures.reason),
        };
        Emission::of(self.run(Lane::Background, &call).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_member_names_its_subject() {
        let key = Subject::Key {
            tenant: TenantId::parse("acme").expect("a tenant"),
            key_id: KeyId::parse("key_05f_abcdefghij12").expect("an id"),
        };
        for subject in [key, Subject::Unknown] {
            let (tenant, key_id) = subject.names();
            let member = format!("{tenant}:{key_id}");
            assert_eq!(Subject::parse(&member), Some(subject));
        }
        for member in ["acme", "acme:unknown", "__system__:key_05f_abcdefghij12"] {
            assert_eq!(Subject::parse(member), None, "{member}");
        }
    }
}
