//! `auth_failed.lua`: tells of refused API keys.

use crate::domain::api_key::secret::KeyId;
use crate::domain::ids::{Partition, TenantId};
use crate::domain::tenant::SYSTEM;
use crate::store::dispatcher::rollups::Flushed;
use crate::store::scripts::AUTH_FAILED;
use crate::store::{Arg, Lane, Lease, Store, StoreError};

/// In a key's place: all that are nobody's.
const UNKNOWN: &str = "unknown";

/// A call around midnight is repeated once; more often than this, the clocks are mad.
const DAYS_MAX: usize = 3;

/// Whose failures are told together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Subject {
    /// A key that has a record.
    Key {
        /// Whose key it is.
        tenant: TenantId,
        /// The key.
        key_id: KeyId,
    },
    /// All keys without one. They are told in the first partition, whichever they name: a client could name them all.
    Unknown,
}

/// Failures that are told at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failures {
    /// How many.
    pub count: u64,
    /// The cause of the first.
    pub context: String,
    /// What was wrong in the first; a word of events.
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
    /// Tells of failures, or counts them where the minute has had its event. Off the request path.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn auth_failed(
        &self,
        subject: &Subject,
        failures: &Failures,
    ) -> Result<(), StoreError> {
        for _ in 0..DAYS_MAX {
            let flushed = self.call_auth_failed(subject, Some(failures), None).await?;
            if flushed != Flushed::WrongDay {
                break;
            }
        }
        Ok(())
    }

    /// Tells of the failures that were only counted, when their minute is over.
    pub(in crate::store) async fn flush_auth_failures(
        &self,
        subject: &Subject,
        lease: Lease,
    ) -> Result<Flushed, StoreError> {
        self.call_auth_failed(subject, None, Some(lease)).await
    }

    async fn call_auth_failed(
        &self,
        subject: &Subject,
        failures: Option<&Failures>,
        lease: Option<Lease>,
    ) -> Result<Flushed, StoreError> {
        let (keys, partition, day) = (self.keys(), subject.partition(), self.today());
        let (tenant, key_id) = subject.names();
        let member = format!("{tenant}:{key_id}");
        let key_names = [
            keys.auth_failures(partition, &member),
            keys.auth_failures_due(partition),
            keys.events(partition, tenant, day),
            keys.outbox(partition),
            keys.days(partition),
            keys.tenant(partition, tenant),
            keys.api_key(partition, key_id),
            keys.lease(partition),
        ];
        let day_text = day.to_string();
        let token = lease.map_or_else(String::new, |lease| lease.token.to_string());
        let count = failures.map_or(0, |failures| failures.count).to_string();
        let args = [
            Arg::from(tenant),
            Arg::from(&day_text),
            Arg::from(day.start_ms()),
            Arg::from(&member),
            Arg::from(&token),
            Arg::from(&count),
            Arg::from(failures.map_or("", |failures| failures.context.as_str())),
            Arg::from(failures.map_or("", |failures| failures.reason)),
        ];
        let value = self
            .call_on(Lane::Background, &AUTH_FAILED, &key_names, &args)
            .await?;
        Flushed::read(&AUTH_FAILED, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_of_the_index_names_its_subject() {
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
