//! An API key as it is recorded: everything but the secret.

use super::reservation::{Record, RecordError};

/// Whether a key is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiKeyStatus {
    /// It is.
    Active,
    /// An operator ended it, or its tenant was closed.
    Revoked,
    /// Its time is over.
    Expired,
}

impl ApiKeyStatus {
    /// The word of the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "ACTIVE",
            Self::Revoked => "REVOKED",
            Self::Expired => "EXPIRED",
        }
    }
}

/// A key's record. Times are milliseconds on the store's clock.
#[derive(Debug, Clone)]
pub struct ApiKey {
    /// Names the record.
    pub key_id: String,
    /// Whose it is.
    pub tenant_id: String,
    /// What may be shown of the key.
    pub key_prefix: String,
    /// The operator's name for it.
    pub name: Option<String>,
    /// The operator's words about it.
    pub description: Option<String>,
    /// What it may do, in the order in which it was granted.
    pub permissions: Vec<String>,
    /// To which scopes it is restricted; none: to no part of the tenant.
    pub scope_filter: Vec<String>,
    /// Judged at the time of reading.
    pub status: ApiKeyStatus,
    /// When it was recorded.
    pub created_at_ms: i64,
    /// From when on it is not good any more.
    pub expires_at_ms: i64,
    /// When it was ended.
    pub revoked_at_ms: Option<i64>,
    /// Why.
    pub revoked_reason: Option<String>,
    /// The operator's own, a JSON object.
    pub metadata: Option<String>,
}

impl ApiKey {
    /// Reads the stored fields. A key whose time is over at `now_ms` has expired, swept or not.
    ///
    /// # Errors
    /// [`RecordError`] names the field.
    pub fn from_record(key_id: &str, record: &Record, now_ms: i64) -> Result<Self, RecordError> {
        let text = |name: &str| record.get(name).map(str::to_owned);
        let words = |name: &str| -> Vec<String> {
            let stored = record.get(name).unwrap_or_default();
            stored.split_whitespace().map(str::to_owned).collect()
        };
        let expires_at_ms = record.integer("expires_at_ms")?;
        let status = match record.text("status")? {
            "ACTIVE" if now_ms < expires_at_ms => ApiKeyStatus::Active,
            "ACTIVE" | "EXPIRED" => ApiKeyStatus::Expired,
            "REVOKED" => ApiKeyStatus::Revoked,
            _ => {
                return Err(RecordError {
                    field: "status".to_owned(),
                });
            }
        };
        Ok(Self {
            key_id: key_id.to_owned(),
            tenant_id: record.text("tenant")?.to_owned(),
            key_prefix: record.text("key_prefix")?.to_owned(),
            name: text("name"),
            description: text("description"),
            permissions: words("permissions"),
            scope_filter: words("scope_filter"),
            status,
            created_at_ms: record.integer("created_at_ms")?,
            expires_at_ms,
            revoked_at_ms: record.optional_integer("revoked_at_ms")?,
            revoked_reason: text("revoked_reason"),
            metadata: text("metadata"),
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
        for (status, now_ms, seen) in [
            ("ACTIVE", 99, ApiKeyStatus::Active),
            ("ACTIVE", 100, ApiKeyStatus::Expired),
            ("REVOKED", 99, ApiKeyStatus::Revoked),
            ("REVOKED", 100, ApiKeyStatus::Revoked),
        ] {
            let key =
                ApiKey::from_record("key_1", &record(status), now_ms).expect("a sound record");
            assert_eq!(key.status, seen, "{status} at {now_ms}");
            assert_eq!(key.permissions, ["budgets:read", "budgets:write"]);
            assert!(key.scope_filter.is_empty());
        }
        assert!(ApiKey::from_record("key_1", &record("?"), 0).is_err());
    }
}
