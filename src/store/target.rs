//! The target of a request. A script replies a word; the target turns it into a refusal that names the subject.

use crate::domain::ids::TenantId;
use crate::domain::refusal::{AccessRefusal, Refusal, TenantRefusal, TooMany};
use crate::store::signature::{Refused, ScriptCall, Signature};
use crate::store::{Lane, ScriptError, Store, StoreError};

/// The target of a request.
pub(crate) trait Target {
    /// The tenant that it belongs to; `None` for what is the operator's, and while the owner is not known.
    fn tenant(&self) -> Option<&TenantId>;

    /// The refusal that a script's word means for it; `None` for a word that every target has, or none of this kind.
    fn refusal(&self, refused: &Refused) -> Option<Refusal>;

    /// The error that a script's word means.
    fn error(&self, refused: Refused, signature: &Signature) -> StoreError {
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
            (Refused::IdempotencyMismatch, _) => AccessRefusal::IdempotencyMismatch.into(),
            (Refused::Corrupt { key }, _) => StoreError::Corrupt(key),
            (Refused::MemoryFull, _) => StoreError::Full,
            (
                Refused::TooMany {
                    count,
                    limit,
                    present,
                },
                _,
            ) => TooMany {
                count,
                limit,
                present,
            }
            .into(),
            (Refused::TenantUnreadable, Some(tenant)) => {
                StoreError::Corrupt(format!("tenant:{tenant}"))
            }
            (Refused::TenantClosed, Some(tenant)) => TenantRefusal::Closed(tenant.clone()).into(),
            (Refused::TenantSuspended, Some(tenant)) => {
                TenantRefusal::KeysSuspended(tenant.clone()).into()
            }
            _ => unexpected,
        }
    }

    /// The outcome of a script; a refusal names the target.
    fn named<T>(&self, outcome: Result<T, ScriptError>) -> Result<T, StoreError>
    where
        Self: Sized,
    {
        outcome.map_err(|error| match error {
            ScriptError::Refused(refused, signature) => self.error(refused, signature),
            ScriptError::Store(error) => error,
        })
    }

    /// The same; an error says whose the target is.
    fn outcome<T>(&self, outcome: Result<T, ScriptError>) -> Result<T, StoreError>
    where
        Self: Sized,
    {
        self.about(self.named(outcome))
    }

    /// Runs the script of a request about it. A refusal names the target, and any error says whose that is.
    async fn run<C: ScriptCall>(&self, store: &Store, call: &C) -> Result<C::Outcome, StoreError>
    where
        Self: Sized,
    {
        self.outcome(store.run(Lane::Request, call).await)
    }

    /// The outcome of what was to be done to it; an error says whose it is.
    fn about<T>(&self, outcome: Result<T, impl Into<StoreError>>) -> Result<T, StoreError>
    where
        Self: Sized,
    {
        about(self.tenant(), outcome)
    }
}

/// The outcome of what was to be done; an error says for whom.
pub(crate) fn about<T>(
    tenant: Option<&TenantId>,
    outcome: Result<T, impl Into<StoreError>>,
) -> Result<T, StoreError> {
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
