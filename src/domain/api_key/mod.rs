//! An API key as it is recorded: everything but the secret.

pub mod permission;
pub mod secret;

use super::ids::TenantId;
use super::json::FreeObject;
use super::moment::Moment;
use super::record::{Record, RecordError};
use super::scope::ScopeFilter;
use super::words::words;
use crate::domain::api_key::permission::{ApiKeyStatus, Permission};
use crate::domain::api_key::secret::KeyId;

words! {
    /// What is wrong with a key that an operator asks about; the first that holds.
    KeyProblem {
        /// No record stands under the visible prefix, or the text is none that a key could have.
        KeyNotFound = "KEY_NOT_FOUND",
        /// The secret is another one.
        InvalidKey = "INVALID_KEY",
        /// An operator revoked it, or its tenant was closed.
        KeyRevoked = "KEY_REVOKED",
        /// Its time is over.
        KeyExpired = "KEY_EXPIRED",
        /// Its record names no tenant.
        KeyNotOwnedByTenant = "KEY_NOT_OWNED_BY_TENANT",
        /// Its tenant has no record.
        TenantNotFound = "TENANT_NOT_FOUND",
        /// Its tenant is suspended.
        TenantSuspended = "TENANT_SUSPENDED",
        /// Its tenant is closed.
        TenantClosed = "TENANT_CLOSED",
        /// A record cannot be read.
        InternalError = "INTERNAL_ERROR",
    }
}

impl KeyProblem {
    /// The word of events.
    pub fn failure_reason(self) -> &'static str {
        match self {
            // A wrong secret makes a key that does not exist.
            Self::KeyNotFound | Self::InvalidKey | Self::KeyNotOwnedByTenant => "key_not_found",
            Self::KeyRevoked => "key_revoked",
            Self::KeyExpired => "key_expired",
            Self::TenantNotFound => "tenant_not_found",
            Self::TenantSuspended => "tenant_suspended",
            Self::TenantClosed => "tenant_closed",
            Self::InternalError => "internal_error",
        }
    }
}

/// A key's record. Times are on the store's clock.
#[derive(Debug, Clone)]
pub struct ApiKey {
    /// Names the record.
    pub key_id: KeyId,
    /// Whose it is.
    pub tenant_id: TenantId,
    /// What may be shown of the key.
    pub key_prefix: String,
    /// The operator's name for it.
    pub name: Option<String>,
    /// The operator's words about it.
    pub description: Option<String>,
    /// What it may do, in the order in which it was granted.
    pub permissions: Vec<Permission>,
    /// To which scopes it is restricted.
    pub scope_filter: ScopeFilter,
    /// Judged at the time of reading.
    pub status: ApiKeyStatus,
    /// When it was recorded.
    pub created_at: Moment,
    /// From when on it is not good any more.
    pub expires_at: Moment,
    /// When it was ended.
    pub revoked_at: Option<Moment>,
    /// Why.
    pub revoked_reason: Option<String>,
    /// The operator's own.
    pub metadata: Option<FreeObject>,
}

impl ApiKey {
    /// Reads the stored fields. A key whose time is over at `now_ms` has expired, swept or not.
    ///
    /// # Errors
    /// [`RecordError`] names the field.
    pub fn from_record(key_id: &KeyId, record: &Record, now_ms: i64) -> Result<Self, RecordError> {
        let text = |name: &str| record.get(name).map(str::to_owned);
        let expires_at = record.moment("expires_at_ms")?;
        let status = match record.word("status", ApiKeyStatus::parse)? {
            ApiKeyStatus::Active if now_ms >= expires_at.as_ms() => ApiKeyStatus::Expired,
            status => status,
        };
        let metadata = text("metadata")
            .map(|json| FreeObject::from_stored(json).ok_or_else(|| RecordError::of("metadata")));
        Ok(Self {
            key_id: key_id.clone(),
            tenant_id: record.word("tenant", TenantId::parse)?,
            key_prefix: record.text("key_prefix")?.to_owned(),
            name: text("name"),
            description: text("description"),
            permissions: Permission::from_stored(record.text("permissions")?),
            scope_filter: ScopeFilter::from_stored(record.get("scope_filter").unwrap_or_default()),
            status,
            created_at: record.moment("created_at_ms")?,
            expires_at,
            revoked_at: record.optional_moment("revoked_at_ms")?,
            revoked_reason: text("revoked_reason"),
            metadata: metadata.transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(status: &str) -> Record {
        let pairs = [
            ("tenant", "acme"),
            ("status", status),
            ("expires_at_ms", "100"),
            ("permissions", " budgets:read budgets:write "),
            ("key_prefix", "sk_live_05f"),
            ("created_at_ms", "1"),
        ];
        Record::from_pairs(
            pairs
                .iter()
                .flat_map(|(n, v)| [n.to_string(), v.to_string()])
                .collect(),
        )
    }

    #[test]
    fn the_clock_decides_whether_a_key_has_expired() {
        let id = KeyId::parse("key_05f_abcdefghij12").expect("an id");
        for (status, now_ms, seen) in [
            ("ACTIVE", 99, ApiKeyStatus::Active),
            ("ACTIVE", 100, ApiKeyStatus::Expired),
            ("REVOKED", 99, ApiKeyStatus::Revoked),
            ("REVOKED", 100, ApiKeyStatus::Revoked),
        ] {
            let key = ApiKey::from_record(&id, &record(status), now_ms).expect("a sound record");
            assert_eq!(key.status, seen, "{status} at {now_ms}");
            assert_eq!(
                key.permissions,
                [Permission::BudgetsRead, Permission::BudgetsWrite]
            );
            assert!(key.scope_filter.is_unrestricted());
        }
        assert!(ApiKey::from_record(&id, &record("?"), 0).is_err());
    }
}
