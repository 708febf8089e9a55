//! An API key: its requests, its record and its response, without the secret.

pub mod permission;
pub mod secret;

use std::fmt;

use super::fields::{Blank, DESCRIPTION_CHARS_MAX, NAME_CHARS_MAX, Patch, object};
use super::ids::TenantId;
use super::json::FreeObject;
use super::moment::Moment;
use super::record::{Record, RecordError};
use super::scope::ScopeFilter;
use super::words::words;
use crate::domain::api_key::permission::{ApiKeyStatus, Permission};
use crate::domain::api_key::secret::KeyId;
use crate::domain::dialect::Dialect;

words! {
    /// Why a key that an operator validates is invalid; the first reason that holds.
    KeyProblem: "SCREAMING_SNAKE_CASE" {
        /// No record has the visible prefix, or the text is not a key.
        KeyNotFound,
        /// The secret is another one.
        InvalidKey,
        /// An operator revoked it, or its tenant was closed.
        KeyRevoked,
        /// Its time is over.
        KeyExpired,
        /// Its record names no tenant.
        KeyNotOwnedByTenant,
        /// Its tenant has no record.
        TenantNotFound,
        /// Its tenant is suspended.
        TenantSuspended,
        /// Its tenant is closed.
        TenantClosed,
        /// A record cannot be read.
        InternalError,
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

object! {
    /// Creates an API key.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ApiKeyCreateRequest: Read + Written {
        /// Tenant that owns the key; cannot change.
        pub tenant_id: String { chars: 1..=128, blank: Blank::Refused, recorded: false },
        /// Name.
        pub name: String { chars: 1..=NAME_CHARS_MAX, blank: Blank::Refused, recorded: false },
        /// Description.
        pub description: Option<String> { chars: ..=DESCRIPTION_CHARS_MAX },
        /// Permissions of the key. Absent: the default ones; empty: none.
        pub permissions: Option<Vec<Permission>> { recorded: false },
        /// Scopes in which the key may act, any of them: `tenant:acme/app:chat`, a path with all below it; `level:value` or
        /// `level:*`, wherever it occurs. Absent or empty: everywhere in its tenant.
        pub scope_filter: Option<ScopeFilter>,
        /// When the key expires; cannot change. Absent: in 90 days.
        pub expires_at: Option<Moment> { recorded: false },
        /// Data that the operator chooses.
        pub metadata: Option<FreeObject>,
    }
}

impl ApiKeyCreateRequest {
    /// Whether the key gets permission to change budgets and policies that the request does not name.
    pub fn writes_by_default(&self, dialect: Dialect) -> bool {
        let default = dialect.words().default_permissions;
        self.permissions.is_none() && default.contains(&Permission::BudgetsWrite)
    }
}

object! {
    /// Changes an API key. Absent members keep their values; a list or an object replaces the stored one; `null` removes
    /// `description` and `metadata`.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct ApiKeyUpdateRequest: Read + Written {
        /// Name.
        pub name: Option<String> { chars: ..=NAME_CHARS_MAX },
        /// Description.
        pub description: Patch<String> { chars: ..=DESCRIPTION_CHARS_MAX },
        /// New permissions of the key. Empty: none.
        pub permissions: Option<Vec<Permission>>,
        /// Scopes in which the key may act from now on, any of them: `tenant:acme/app:chat`, a path with all below it;
        /// `level:value` or `level:*`, wherever it occurs. Empty: everywhere in its tenant.
        pub scope_filter: Option<ScopeFilter>,
        /// Data that the operator chooses.
        pub metadata: Patch<FreeObject>,
    }
}

object! {
    /// A new API key. Only this response shows its secret.
    #[derive(Clone, PartialEq, Eq)]
    pub struct ApiKeyCreateResponse: Serialize + Open {
        /// Id of the key.
        pub key_id: KeyId,
        /// The whole key.
        pub key_secret: String,
        /// Visible part of the key.
        pub key_prefix: String,
        /// Tenant that owns the key.
        pub tenant_id: TenantId,
        /// Permissions of the key.
        pub permissions: Vec<Permission> { required: false },
        /// When it was created.
        pub created_at: Moment,
        /// When it expires.
        pub expires_at: Moment,
    }
}

impl fmt::Debug for ApiKeyCreateResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKeyCreateResponse({}, redacted)", self.key_id)
    }
}

object! {
    /// An API key without its secret.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ApiKey: Serialize + Recorded {
        /// Id of the key.
        pub key_id: KeyId,
        /// Tenant that owns the key.
        pub tenant_id: TenantId { field: "tenant" },
        /// Visible part of the key.
        pub key_prefix: String,
        /// Name.
        pub name: Option<String> { chars: ..=NAME_CHARS_MAX },
        /// Description.
        pub description: Option<String> { chars: ..=DESCRIPTION_CHARS_MAX },
        /// Permissions of the key.
        pub permissions: Vec<Permission> { required: false },
        /// Scopes in which the key may act. Absent: everywhere in its tenant.
        pub scope_filter: ScopeFilter {
            unpublished_default: ScopeFilter::default(), skip_if: ScopeFilter::is_unrestricted,
        },
        /// Status, by the clock at the time of reading.
        pub status: ApiKeyStatus,
        /// When it was created.
        pub created_at: Moment { field: "created_at_ms" },
        /// When it expires.
        pub expires_at: Moment { field: "expires_at_ms" },
        /// When it was revoked.
        pub revoked_at: Option<Moment> { field: "revoked_at_ms" },
        /// Why it was revoked.
        pub revoked_reason: Option<String> { chars: ..=512 },
        /// Data that the operator chooses.
        pub metadata: Option<FreeObject>,
    }
    unsent {
        /// When it was last used, roughly.
        last_used_at: Moment,
    }
}

impl ApiKey {
    /// Reads the stored fields. A key that expires at `now_ms` or earlier has expired, swept or not.
    ///
    /// # Errors
    /// [`RecordError`] names the field.
    pub fn judged(key_id: &KeyId, record: &Record, now_ms: i64) -> Result<Self, RecordError> {
        let mut key = Self::from_record(&record.clone().with("key_id", key_id.as_str()))?;
        if key.status == ApiKeyStatus::Active && now_ms >= key.expires_at.as_ms() {
            key.status = ApiKeyStatus::Expired;
        }
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::fields::read_body;

    #[test]
    fn the_secret_is_in_the_response_and_not_in_debug() {
        let at = Moment::from_ms(0).unwrap();
        let response = ApiKeyCreateResponse {
            key_id: KeyId::parse("key_05f_abcdefghij12").unwrap(),
            key_secret: "sk_live_swordfish".to_owned(),
            key_prefix: "sk_live_".to_owned(),
            tenant_id: TenantId::parse("acme").unwrap(),
            permissions: vec![],
            created_at: at,
            expires_at: at,
        };
        let json = serde_json::to_string(&response).unwrap();
        assert!(json.contains("sk_live_swordfish"));
        assert!(!format!("{response:?}").contains("swordfish"));
    }

    fn record(status: &str) -> Record {
        Record::from_iter([
            ("tenant", "acme"),
            ("status", status),
            ("expires_at_ms", "100"),
            ("permissions", " budgets:read budgets:write "),
            ("key_prefix", "sk_live_05f"),
            ("created_at_ms", "1"),
        ])
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
            let key = ApiKey::judged(&id, &record(status), now_ms).expect("a sound record");
            assert_eq!(key.status, seen, "{status} at {now_ms}");
            let permissions = [Permission::BudgetsRead, Permission::BudgetsWrite];
            assert_eq!(key.permissions, permissions);
            assert!(key.scope_filter.is_unrestricted());
        }
        assert!(ApiKey::judged(&id, &record("?"), 0).is_err());
    }

    fn create(body: &str) -> Result<ApiKeyCreateRequest, String> {
        read_body(body)
    }

    #[test]
    fn absent_and_empty_permissions_differ() {
        let permissions = |more: &str| {
            let body = format!(r#"{{"tenant_id":"acme","name":"n"{more}}}"#);
            create(&body).map(|request| request.permissions)
        };
        assert_eq!(permissions(""), Ok(None));
        assert_eq!(permissions(r#","permissions":[]"#), Ok(Some(vec![])));
        let message = permissions(r#","permissions":["balances:read","root"]"#).unwrap_err();
        assert!(
            message.contains("permissions[1]: must be one of"),
            "{message}"
        );
        assert!(message.ends_with("not `root`"), "{message}");
    }

    #[test]
    fn a_scope_filter_is_kept_in_lower_case() {
        let body = r#"{"tenant_id":"acme","name":"n","scope_filter":["Workspace:Prod"],"expires_at":"2099-01-01T00:00:00+01:00"}"#;
        let request = create(body).unwrap();
        assert_eq!(request.scope_filter.unwrap().entries(), ["workspace:prod"]);
        let expires_at = request.expires_at.unwrap().to_string();
        assert_eq!(expires_at, "2098-12-31T23:00:00.000Z");
        assert!(create(r#"{"tenant_id":"acme","name":"n","expires_at":"tomorrow"}"#).is_err());
        assert!(create(r#"{"tenant_id":"acme","name":"n","expires_at":1790000000}"#).is_err());
    }

    fn update(body: &str) -> Result<ApiKeyUpdateRequest, String> {
        read_body(body)
    }

    #[test]
    fn absent_members_stay_and_null_removes_texts() {
        let nothing = update("{}").expect("a change of nothing");
        assert_eq!((nothing.permissions, nothing.metadata), (None, Patch::Keep));
        let nulls = update(
            r#"{"name":null,"permissions":null,"scope_filter":null,"description":null,"metadata":null}"#,
        );
        let nulls = nulls.expect("a change");
        assert_eq!((nulls.name, nulls.permissions), (None, None));
        assert_eq!(nulls.scope_filter, None);
        assert_eq!(nulls.description, Patch::Clear);
        assert_eq!(nulls.metadata, Patch::Clear);
    }

    #[test]
    fn fixed_members_are_unknown_in_an_update() {
        for member in "tenant_id expires_at status key_id key_prefix revoked_at".split(' ') {
            let message = update(&format!(r#"{{"{member}":"x"}}"#)).expect_err("refused");
            let unknown = format!("unknown member `{member}`");
            assert!(message.contains(&unknown), "{message}");
        }
        let message = update(r#"{"permissions":["balances:read","root"]}"#).expect_err("refused");
        assert!(message.contains("permissions[1]"), "{message}");
        assert!(message.ends_with("not `root`"), "{message}");
    }
}
