//! What a request of the admin plane is about. A script replies a word; the target turns it into a refusal that names the subject.

use crate::domain::ids::TenantId;
use crate::domain::refusal::{AccessRefusal, Refusal, TenantRefusal, TooMany};
use crate::store::signature::{Refused, ScriptCall, Signature};
use crate::store::{Lane, OperationError, Store};

/// What a request is about.
pub(crate) trait Target {
    /// The tenant that it belongs to; `None` for what is the operator's, and while the owner is not known.
    fn tenant(&self) -> Option<&TenantId>;

    /// The refusal that a script's word means for it; `None` for a word that every target has, or none of this kind.
    fn refusal(&self, refused: &Refused) -> Option<Refusal>;

    /// The error that a script's word means.
    fn error(&self, refused: Refused, signature: &Signature) -> OperationError {
        if let Some(refusal) = self.refusal(&refused) {
            return refusal.into();
        }
        let unexpected = refused.unexpected(signature);
        match (refused, self.tenant()) {
            (Refused::Unauthorized { why }, _) => AccessRefusal::Unauthorized(why).into(),
            (Refused::Forbidden { permission }, _) => {
                AccessRefusal::NotPermitted(permission).into()
            }
            (Refused::ScopeForbidden { filter }, _) => AccessRefusal::ScopeForbidden(filter).into(),
            (
                Refused::TooMany {
                    count,
                    limit,
                    present,
                },
                _,
            ) => OperationError::Refused(
                TooMany {
                    count,
                    limit,
                    present,
                }
                .into(),
            ),
            (Refused::IdempotencyMismatch, _) => AccessRefusal::IdempotencyMismatch.into(),
            (Refused::Corrupt { key }, _) => OperationError::Corrupt(key),
            (Refused::TenantUnreadable, Some(tenant)) => {
                OperationError::Corrupt(format!("tenant:{tenant}"))
            }
            (Refused::TenantClosed, Some(tenant)) => TenantRefusal::Closed(tenant.clone()).into(),
            (Refused::TenantSuspended, Some(tenant)) => {
                TenantRefusal::KeysSuspended(tenant.clone()).into()
            }
            _ => unexpected.into(),
        }
    }

    /// The outcome of what was to be done to it; an error says whose it is.
    fn about<T>(&self, outcome: Result<T, impl Into<OperationError>>) -> Result<T, OperationError>
    where
        Self: Sized,
    {
        about(self.tenant(), outcome)
    }
}

/// The outcome of what was to be done; an error says for whom.
pub(crate) fn about<T>(
    tenant: Option<&TenantId>,
    outcome: Result<T, impl Into<OperationError>>,
) -> Result<T, OperationError> {
    outcome.map_err(|error| match tenant {
        Some(tenant) => error.into().about(tenant),
        None => error.into(),
    })
}

/// The tenant itself, or what its keys may read.
impl Target for TenantId {
    fn tenant(&self) -> Option<&TenantId> {
        Some(self)
    }

    fn refusal(&self, refused: &Refused) -> Option<Refusal> {
        use TenantRefusal as R;
        let refusal = match refused {
            Refused::TenantNotFound => R::NotFound(self.to_string()),
            Refused::DuplicateTenant => R::Duplicate(self.clone()),
            Refused::LeavingClosed => R::StaysClosed(self.clone()),
            _ => return None,
        };
        Some(refusal.into())
    }
}

/// Something to be created for a tenant.
pub(crate) struct Creation<'a, T> {
    by_admin: bool,
    target: &'a T,
}

impl<'a, T> Creation<'a, T> {
    /// By the admin key, or by a key of the tenant.
    pub fn new(by_admin: bool, target: &'a T) -> Self {
        Self { by_admin, target }
    }
}

impl<T: Target> Target for Creation<'_, T> {
    fn tenant(&self) -> Option<&TenantId> {
        self.target.tenant()
    }

    /// A tenant's own key learns that the tenant is suspended, the admin key that it is not active.
    fn refusal(&self, refused: &Refused) -> Option<Refusal> {
        let tenant = self.tenant()?;
        Some(match (refused, self.by_admin) {
            (Refused::TenantSuspended, true) => TenantRefusal::NotActive(tenant.clone()).into(),
            (Refused::OwnerNotFound, _) => TenantRefusal::OwnerNotFound(tenant.to_string()).into(),
            _ => return self.target.refusal(refused),
        })
    }
}

impl Store {
    /// Runs a script of the admin plane; a refusal names the target.
    ///
    /// # Errors
    /// What the script refuses.
    pub(crate) async fn run_for<C: ScriptCall>(
        &self,
        lane: Lane,
        target: &impl Target,
        call: &C,
    ) -> Result<C::Outcome, OperationError> {
        let outcome = self.run_on(lane, call).await.map_err(OperationError::from);
        let refused = |refused| target.error(refused, C::SIGNATURE);
        target.about(outcome.and_then(|outcome| outcome.map_err(refused)))
    }
}
