//! Rollups: refusals cost the caller nothing, so above a rate they are only counted, and one event per minute says how many.
//! Where no later refusal emits it, the dispatcher does.

use super::auth_failed::Subject;
use super::emit::{AuditFailures, Denials, Emission};
use super::poll::unreadable;
use crate::domain::ids::{Partition, TenantId};
use crate::domain::words::words;
use crate::store::{Keys, Lease, Store, StoreError};

words! {
    /// What is counted.
    Rollup {
        /// Denied reservations and decisions, by tenant.
        Denials = "denials",
        /// Refused API keys, by key.
        AuthFailures = "auth_failures",
        /// Audit entries of refused requests, by tenant; those of unknown callers, by partition.
        AuditFailures = "audit_failures",
    }
}

impl Rollup {
    /// The index of those that are due, by time.
    pub fn index(self) -> fn(&Keys, Partition) -> String {
        match self {
            Self::Denials => Keys::denials_due,
            Self::AuthFailures => Keys::auth_failures_due,
            Self::AuditFailures => Keys::audit_failures_due,
        }
    }
}

impl Store {
    /// Emits one rollup, if it is still pending. `cause`: of a denial whose own is not known.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Refused`] for a member that names nothing.
    pub async fn emit_rollup(
        &self,
        rollup: Rollup,
        member: &str,
        lease: Lease,
        cause: &str,
    ) -> Result<Emission, StoreError> {
        match rollup {
            Rollup::Denials => {
                let call = Denials {
                    tenant: &TenantId::parse(member).ok_or_else(|| unreadable(member))?,
                    context: cause,
                    fencing_token: lease,
                };
                self.emit(&call).await
            }
            Rollup::AuthFailures => {
                let subject = Subject::parse(member).ok_or_else(|| unreadable(member))?;
                self.emit_auth_failures(&subject, None, Some(lease)).await
            }
            Rollup::AuditFailures => {
                let call = AuditFailures {
                    tenant: member,
                    fencing_token: lease,
                };
                self.emit(&call).await
            }
        }
    }
}
