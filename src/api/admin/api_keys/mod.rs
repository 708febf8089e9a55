//! The HTTP operations on API keys.

pub mod create;
pub mod list;
pub mod revoke;
pub mod update;

use crate::domain::api_key::permission::Permission;
use crate::domain::api_key::secret::{ApiKeyText, KeyId};
use crate::domain::fields::object;
use crate::domain::ids::TenantId;
use crate::domain::moment::Moment;

object! {
    /// A new API key. Only this response shows its secret.
    #[derive(Clone, PartialEq, Eq)]
    pub struct ApiKeyCreateResponse: Serialize + Open {
        /// Id of the key.
        pub key_id: KeyId,
        /// The whole key.
        key_secret: String,
        /// Visible part of the key.
        key_prefix: String,
        /// Tenant that owns the key.
        pub tenant_id: TenantId,
        /// What the key may do.
        pub permissions: Vec<Permission> { required: false },
        /// When it was created.
        pub created_at: Moment,
        /// When it expires.
        pub expires_at: Moment,
    }
}

impl ApiKeyCreateResponse {
    /// Reveals `key`.
    pub fn new(
        key: &ApiKeyText,
        tenant_id: TenantId,
        permissions: Vec<Permission>,
        created_at: Moment,
        expires_at: Moment,
    ) -> Self {
        Self {
            key_id: key.key_id().clone(),
            key_secret: key.expose().to_owned(),
            key_prefix: key.visible_prefix().to_owned(),
            tenant_id,
            permissions,
            created_at,
            expires_at,
        }
    }
}

impl std::fmt::Debug for ApiKeyCreateResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ApiKeyCreateResponse({}, redacted)", self.key_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::Partition;

    #[test]
    fn the_secret_is_in_the_response_and_not_in_debug() {
        let key = ApiKeyText::generate("sk_live_", Partition::new(1).unwrap());
        let at = Moment::from_ms(0).unwrap();
        let response =
            ApiKeyCreateResponse::new(&key, TenantId::parse("acme").unwrap(), vec![], at, at);
        assert!(
            serde_json::to_string(&response)
                .unwrap()
                .contains(key.expose())
        );
        assert!(!format!("{response:?}").contains(key.expose()));
    }
}
