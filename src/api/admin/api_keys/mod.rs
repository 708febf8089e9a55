//! The HTTP operations on API keys.

pub mod create;
pub mod list;
pub mod revoke;
pub mod update;

use crate::admin::CreatedApiKey;
use crate::domain::api_key::permission::Permission;
use crate::domain::api_key::secret::KeyId;
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

/// Reveals the key.
impl From<CreatedApiKey> for ApiKeyCreateResponse {
    fn from(created: CreatedApiKey) -> Self {
        Self {
            key_id: created.key.key_id().clone(),
            key_secret: created.key.expose().to_owned(),
            key_prefix: created.key.visible_prefix().to_owned(),
            tenant_id: created.tenant_id,
            permissions: created.permissions,
            created_at: created.created_at,
            expires_at: created.expires_at,
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
    use crate::domain::api_key::secret::ApiKeyText;
    use crate::domain::ids::Partition;

    #[test]
    fn the_secret_is_in_the_response_and_not_in_debug() {
        let key = ApiKeyText::generate("sk_live_", Partition::new(1).unwrap());
        let at = Moment::from_ms(0).unwrap();
        let response = ApiKeyCreateResponse::from(CreatedApiKey {
            key: key.clone(),
            tenant_id: TenantId::parse("acme").unwrap(),
            permissions: vec![],
            created_at: at,
            expires_at: at,
        });
        assert!(
            serde_json::to_string(&response)
                .unwrap()
                .contains(key.expose())
        );
        assert!(!format!("{response:?}").contains(key.expose()));
    }
}
