//! `PATCH /v1/admin/api-keys/{key_id}`.

use utoipa::ToSchema;

use super::scope_filter_entry;
use crate::admin::ApiKeyChanges;
use crate::domain::api_key::permission::Permission;
use crate::domain::fields::{Patch, Problems, read_body};
use crate::domain::json::{FreeObject, Json};
use crate::domain::scope::ScopeFilter;

/// Changes an API key. What is absent stays; a list or an object replaces the whole of what was there; `null` removes
/// `description` and `metadata`.
#[derive(Debug, Clone, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApiKeyUpdateRequest {
    /// For people.
    #[schema(max_length = 256, nullable = false)]
    pub name: Option<String>,
    /// For people.
    #[schema(value_type = String, max_length = 1024, required = false)]
    pub description: Option<Patch<String>>,
    /// What it may do from now on. Empty: nothing.
    #[schema(nullable = false)]
    pub permissions: Option<Vec<Permission>>,
    /// Where it may act from now on: entries `level:value` or `level:*`, one of which must match. Empty: everywhere in its
    /// tenant.
    #[schema(value_type = Vec<String>, required = false)]
    pub scope_filter: Option<ScopeFilter>,
    /// Data of the operator's own.
    #[schema(value_type = Object, required = false)]
    pub metadata: Option<Patch<FreeObject>>,
}

impl ApiKeyUpdateRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Problems`], all of them.
    pub fn from_json(body: Json) -> Result<Self, Problems> {
        read_body(body, |body| {
            let name = body.optional("name", |value| value.string(0..=256));
            let description = body.clearable("description", |value| value.string(0..=1024));
            let permissions = body.optional("permissions", |value| {
                value.array(usize::MAX, Permission::read)
            });
            let scope_filter = body.optional("scope_filter", |value| {
                value.array(usize::MAX, scope_filter_entry)
            });
            let metadata = body.clearable("metadata", |value| value.free_object());
            Some(Self {
                name,
                description,
                permissions,
                scope_filter: scope_filter.map(ScopeFilter::new),
                metadata,
            })
        })
    }

    /// What is to be changed.
    pub fn into_changes(self) -> ApiKeyChanges {
        ApiKeyChanges {
            name: self.name,
            description: self.description,
            permissions: self.permissions,
            scope_filter: self.scope_filter,
            metadata: self.metadata,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(body: &str) -> Result<ApiKeyUpdateRequest, String> {
        ApiKeyUpdateRequest::from_json(Json::parse(body.as_bytes()).expect("JSON"))
            .map_err(|problems| problems.to_string())
    }

    #[test]
    fn what_is_absent_stays_and_null_removes_what_is_for_people() {
        let nothing = update("{}").expect("a change of nothing");
        assert_eq!((nothing.permissions, nothing.metadata), (None, None));
        let nulls = update(
            r#"{"name":null,"permissions":null,"scope_filter":null,"description":null,"metadata":null}"#,
        );
        let nulls = nulls.expect("a change");
        assert_eq!(
            (nulls.name, nulls.permissions, nulls.scope_filter),
            (None, None, None)
        );
        assert_eq!(nulls.description, Some(Patch::Clear));
        assert_eq!(nulls.metadata, Some(Patch::Clear));
    }

    #[test]
    fn what_cannot_change_is_no_member() {
        for member in [
            "tenant_id",
            "expires_at",
            "status",
            "key_id",
            "key_prefix",
            "revoked_at",
        ] {
            let message = update(&format!(r#"{{"{member}":"x"}}"#)).expect_err("refused");
            assert!(
                message.contains(&format!("unknown member `{member}`")),
                "{message}"
            );
        }
        let message = update(r#"{"permissions":["balances:read","root"]}"#).expect_err("refused");
        assert!(
            message.contains("permissions[1]") && message.ends_with("not `root`"),
            "{message}"
        );
    }
}
