//! Refusals of the caller and because of the tenant, whatever the operation.

use crate::domain::ids::TenantId;
use crate::domain::printable::printable;
use crate::domain::scope::ScopeFilter;

/// How many entries of a scope filter a message names.
const ENTRIES_NAMED: usize = 10;

/// Why the caller may not do what they ask.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessRefusal {
    /// The API key is not valid.
    #[error("{0}")]
    Unauthorized(BadKey),
    /// On the runtime plane: the API key lacks this permission.
    #[error("The API key lacks the permission {0}")]
    Forbidden(String),
    /// On the admin plane: the API key lacks this permission.
    #[error("The API key lacks the permission {0}")]
    NotPermitted(String),
    /// The API key is restricted to other scopes: to these.
    #[error("The API key is restricted to other scopes; it may act in {}", named(.0))]
    ScopeForbidden(ScopeFilter),
    /// The request names another tenant than the API key's.
    #[error("The request names a tenant other than that of the API key")]
    OtherTenant,
    /// The idempotency key was first used with another request.
    #[error("The idempotency key was first used with another request; use a new key")]
    IdempotencyMismatch,
    /// The request has an idempotency key, but its outcome shows a secret, and there is no key to seal it for a replay.
    #[error(
        "X-Idempotency-Key cannot be used here: the response shows a secret, and no key is configured to encrypt it"
    )]
    NotRepeatable,
}

/// The entries of a filter, for a message.
fn named(filter: &ScopeFilter) -> String {
    let entries = filter.entries();
    let first = entries.iter().take(ENTRIES_NAMED);
    let first: Vec<String> = first.map(|entry| printable(entry).to_string()).collect();
    match entries.len().saturating_sub(ENTRIES_NAMED) {
        0 => first.join(", "),
        more => format!("{}, and {more} more", first.join(", ")),
    }
}

/// Why an API key is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadKey {
    /// The text is none that a key of this deployment could have.
    #[error("KEY_NOT_FOUND: no such API key")]
    Malformed,
    /// There is no record under the visible prefix.
    #[error("KEY_NOT_FOUND: no such API key")]
    NotFound,
    /// The secret is wrong.
    #[error("INVALID_KEY: the API key is wrong")]
    Invalid,
    /// An operator revoked it, or its tenant was closed.
    #[error("KEY_REVOKED: the API key has been revoked")]
    Revoked,
    /// It has expired.
    #[error("KEY_EXPIRED: the API key has expired")]
    Expired,
    /// The record belongs to another tenant than before.
    #[error("KEY_NOT_OWNED_BY_TENANT: the API key belongs to no tenant")]
    NotOwned,
}

impl BadKey {
    /// Reads the word that scripts use.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "KEY_NOT_FOUND" => Self::NotFound,
            "INVALID_KEY" => Self::Invalid,
            "KEY_REVOKED" => Self::Revoked,
            "KEY_EXPIRED" => Self::Expired,
            "KEY_NOT_OWNED_BY_TENANT" => Self::NotOwned,
            _ => return None,
        })
    }
}

/// The problem with the credential of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadCredential {
    /// There is no API key.
    #[error("Missing API key")]
    NoKey,
    /// There is no admin key.
    #[error("Missing admin key")]
    NoAdminKey,
    /// The API key is refused.
    #[error("{0}")]
    Key(BadKey),
    /// The admin key is none of those configured.
    #[error("Invalid admin key")]
    AdminKey,
}

impl BadCredential {
    /// Label value in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NoKey | Self::NoAdminKey => "no_key",
            Self::Key(BadKey::Malformed) => "invalid_format",
            Self::Key(BadKey::NotFound) => "key_not_found",
            Self::Key(BadKey::Invalid) => "wrong_secret",
            Self::Key(BadKey::Revoked) => "key_revoked",
            Self::Key(BadKey::Expired) => "key_expired",
            Self::Key(BadKey::NotOwned) => "no_tenant",
            Self::AdminKey => "wrong_admin_key",
        }
    }

    /// Reason in events, which have fewer of them; `None` where no key was used.
    pub fn failure_reason(self) -> Option<&'static str> {
        Some(match self {
            Self::NoKey | Self::NoAdminKey => return None,
            Self::Key(BadKey::Malformed) => "invalid_format",
            Self::Key(BadKey::Revoked) => "key_revoked",
            Self::Key(BadKey::Expired) => "key_expired",
            // A wrong secret makes a key that does not exist.
            Self::Key(BadKey::NotFound | BadKey::Invalid | BadKey::NotOwned) | Self::AdminKey => {
                "key_not_found"
            }
        })
    }
}

/// Why the tenant rules a request out. The id is as sent; it may be malformed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TenantRefusal {
    /// The tenant is closed: nothing that it owns can be changed.
    #[error("The tenant {0} is closed; what it owns is read-only")]
    Closed(TenantId),
    /// On the runtime plane: the tenant is suspended, so nothing new can be reserved or charged.
    #[error("The tenant {0} is suspended; no new spending")]
    Suspended(TenantId),
    /// On the admin plane: the tenant is suspended, so its keys may change nothing.
    #[error("The tenant {0} is suspended; its keys change nothing")]
    KeysSuspended(TenantId),
    /// The tenant is suspended, so nothing can be created for it.
    #[error("The tenant {0} is suspended; nothing can be created for it")]
    NotActive(TenantId),
    /// There is no such tenant.
    #[error("There is no tenant {}", printable(.0))]
    NotFound(String),
    /// There is no such tenant that could own the new record.
    #[error("There is no tenant {}", printable(.0))]
    OwnerNotFound(String),
    /// A tenant of another name has this id.
    #[error("The tenant {0} exists under another name")]
    Duplicate(TenantId),
    /// A closed tenant stays closed.
    #[error("Invalid status: the tenant {0} is closed, and a closed tenant stays closed")]
    StaysClosed(TenantId),
    /// The new record would be in another tenant than the one that the request names.
    #[error("Validation failed: {member}: {value} does not lie in the tenant {}", printable(.tenant))]
    Outside {
        /// The member that says where it lies.
        member: &'static str,
        /// Its value.
        value: String,
        /// The tenant, as it was sent.
        tenant: String,
    },
    /// The admin key names no tenant.
    #[error("Validation failed: tenant_id: is required with the admin key")]
    IdMissing,
    /// An API key names a tenant.
    #[error(
        "Validation failed: tenant_id: must be absent with an API key, which names its tenant itself"
    )]
    IdPresent,
}
