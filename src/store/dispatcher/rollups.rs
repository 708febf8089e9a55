//! Sums: refusals are free for the caller, so above a rate they are only counted, and told in one fact per minute. What no
//! later refusal tells, the dispatcher does.

use redis::Value;

use super::auth_failed::Subject;
use super::poll::Due;
use crate::domain::ids::{Partition, TenantId};
use crate::driver::script::Script;
use crate::store::{Lease, Reply, Store, StoreError};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sum {
    /// Denied reservations and decisions, by tenant.
    Denials,
    /// Refused API keys, by key.
    AuthFailures,
    /// Audit entries of unknown callers, by partition.
    AuditFailures,
}

/// What one call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushed {
    /// It appended so many facts: one, or none where a later refusal had done so already.
    Facts(i64),
    /// The minute is not over.
    Early,
    /// The caller's lease is over.
    Fenced,
    /// The day keys were those of another day.
    WrongDay,
}

impl Sum {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Denials, Self::AuthFailures, Self::AuditFailures];

    /// The label of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Denials => "denials",
            Self::AuthFailures => "auth_failures",
            Self::AuditFailures => "audit_failures",
        }
    }
}

impl Flushed {
    pub(in crate::store) fn read(script: &Script, value: Value) -> Result<Self, StoreError> {
        let mut reply = Reply::new(script, value)?;
        match reply.next_str()?.as_str() {
            "flushed" => Ok(Self::Facts(reply.next_i64()?)),
            "early" => Ok(Self::Early),
            "fenced" => Ok(Self::Fenced),
            "clock" => Ok(Self::WrongDay),
            other => Err(reply.unknown(other)),
        }
    }
}

impl Store {
    /// What of each partition is to be summed up first, at most `rows` of each; `None` where the node is out
    /// of reach.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn poll_sums(
        &self,
        sum: Sum,
        partitions: &[Partition],
        rows: usize,
    ) -> Result<Vec<Option<Vec<Due>>>, StoreError> {
        let keys = self.keys();
        let key = |partition: &Partition| match sum {
            Sum::Denials => keys.denials_due(*partition),
            Sum::AuthFailures => keys.auth_failures_due(*partition),
            Sum::AuditFailures => keys.audit_failures_due(*partition),
        };
        self.poll(partitions.iter().map(key), rows).await
    }

    /// Tells one sum, if it is still to be told. `cause`: of a denial whose own is not known.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Refused`] for a member that names nothing.
    pub async fn flush_sum(
        &self,
        sum: Sum,
        member: &str,
        lease: Lease,
        cause: &str,
    ) -> Result<Flushed, StoreError> {
        let unreadable = || StoreError::Refused {
            code: "MEMBER".to_owned(),
            detail: format!("`{member}` names nothing that is counted"),
        };
        match sum {
            Sum::Denials => {
                let tenant = TenantId::parse(member).ok_or_else(unreadable)?;
                self.flush_denials(&tenant, lease, cause).await
            }
            Sum::AuthFailures => {
                let subject = Subject::parse(member).ok_or_else(unreadable)?;
                self.flush_auth_failures(&subject, lease).await
            }
            Sum::AuditFailures => self.flush_audit_failures(member, lease).await,
        }
    }
}
