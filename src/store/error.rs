//! The error of an operation: a refusal, or a failure of Redis or of a record.

use crate::domain::evidence::EvidenceRef;
use crate::domain::ids::TenantId;
use crate::domain::record::RecordError;
use crate::domain::refusal::Refusal;
use crate::driver::error::StoreError;

/// Why an operation did not do what it is for.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// The service says no; nothing was changed.
    #[error("refused: {0:?}")]
    Refused(Refusal),
    /// The same, and evidence of it will be signed.
    #[error("refused: {0:?}")]
    Attested(Refusal, Box<EvidenceRef>),
    /// Redis did not reply, or its reply cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A field of a record cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A record that the operation depends on cannot be read; named by its key.
    #[error("the record `{0}` is corrupt")]
    Corrupt(String),
    /// Any of these; the audit log of this tenant records it.
    #[error("{1}")]
    About(TenantId, #[source] Box<OperationError>),
}

impl OperationError {
    /// Whether the service says no, and nothing was changed.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        self.refusal().is_some()
    }

    /// The refusal, if the service says no.
    #[must_use]
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) | Self::Attested(refusal, _) => Some(refusal),
            Self::About(_, error) => error.refusal(),
            Self::Store(_) | Self::Record(_) | Self::Corrupt(_) => None,
        }
    }

    /// The same, with the tenant that the operation is about.
    #[must_use]
    pub fn about(self, tenant: &TenantId) -> Self {
        match self {
            Self::About(..) => self,
            error => Self::About(tenant.clone(), Box::new(error)),
        }
    }
}

impl<R: Into<Refusal>> From<R> for OperationError {
    fn from(refusal: R) -> Self {
        Self::Refused(refusal.into())
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

    use super::*;

    #[test]
    fn an_error_about_a_tenant_keeps_its_causes() {
        let tenant = TenantId::parse("acme").expect("a tenant");
        let failed = OperationError::Corrupt("key".to_owned()).about(&tenant);
        let cause = failed.source().expect("a cause");
        assert_eq!(cause.to_string(), failed.to_string());
    }
}
