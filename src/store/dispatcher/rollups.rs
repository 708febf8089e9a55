//! Rollups: refusals cost the caller nothing, so above a rate they are only counted, and one event per minute says how many.
//! Where no later refusal emits it, the dispatcher does.

use super::auth_failed::Subject;
use super::flush::Flushed;
use super::poll::Due;
use crate::domain::ids::{Partition, TenantId};
use crate::store::{Lease, Store, StoreError};

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rollup {
    /// Denied reservations and decisions, by tenant.
    Denials,
    /// Refused API keys, by key.
    AuthFailures,
    /// Audit entries of unknown callers, by partition.
    AuditFailures,
}

impl Rollup {
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

impl Store {
    /// The rollups of each partition that are due first, at most `rows` of each; `None` where the node is out of reach.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn poll_rollups(
        &self,
        rollup: Rollup,
        partitions: &[Partition],
        rows: usize,
    ) -> Result<Vec<Option<Vec<Due>>>, StoreError> {
        let keys = self.keys();
        let key = |partition: &Partition| match rollup {
            Rollup::Denials => keys.denials_due(*partition),
            Rollup::AuthFailures => keys.auth_failures_due(*partition),
            Rollup::AuditFailures => keys.audit_failures_due(*partition),
        };
        self.poll(partitions.iter().map(key), rows).await
    }

    /// Emits one rollup, if it is still pending. `cause`: of a denial whose own is not known.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Refused`] for a member that names nothing.
    pub async fn flush_rollup(
        &self,
        rollup: Rollup,
        member: &str,
        lease: Lease,
        cause: &str,
    ) -> Result<Flushed, StoreError> {
        let unreadable = || StoreError::Refused {
            code: "MEMBER".to_owned(),
            detail: format!("`{member}` names nothing that is counted"),
        };
        match rollup {
            Rollup::Denials => {
                let tenant = TenantId::parse(member).ok_or_else(unreadable)?;
                self.flush_denials(&tenant, lease, cause).await
            }
            Rollup::AuthFailures => {
                let subject = Subject::parse(member).ok_or_else(unreadable)?;
                self.flush_auth_failures(&subject, lease).await
            }
            Rollup::AuditFailures => self.flush_audit_failures(member, lease).await,
        }
    }
}
