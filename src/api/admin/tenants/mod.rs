//! Tenants: `POST` and `GET /v1/admin/tenants`, `GET /v1/admin/tenants/{tenant_id}`.

pub mod handlers;
mod list;
pub mod update;

pub use list::{TenantListResponse, Tenants};

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::Object;

use crate::domain::fields::{Problems, read_body, schema};
use crate::domain::ids::TenantId;
use crate::domain::json::Json;
use crate::domain::moment::Moment;
use crate::domain::policy::OveragePolicy;
use crate::domain::tenant::{ReservationExpiryPolicy, TenantStatus};

/// Bounds of a tenant's lifetimes of reservations, in milliseconds.
pub const RESERVATION_TTL_MS: std::ops::RangeInclusive<i64> = 1_000..=86_400_000;
/// Most entries in a tenant's `metadata`.
pub const METADATA_MAX: usize = 32;

/// Makes a tenant.
#[derive(Debug, Clone, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantCreateRequest {
    /// Chosen by the operator; cannot change. `system` is taken.
    #[schema(value_type = String, pattern = "^[a-z0-9-]+$", min_length = 3, max_length = 64)]
    pub tenant_id: TenantId,
    /// For people; need not be unique.
    #[schema(min_length = 1, max_length = 256)]
    pub name: String,
    /// For the operator's own order; without influence.
    #[schema(max_length = 128, nullable = false)]
    pub parent_tenant_id: Option<String>,
    /// Labels of the operator's own.
    #[schema(schema_with = metadata_schema, required = false)]
    pub metadata: Option<BTreeMap<String, String>>,
    /// What a commit above its estimate does when nothing nearer decides.
    #[schema(nullable = false)]
    pub default_commit_overage_policy: Option<OveragePolicy>,
    /// Lifetime of a reservation whose request names none, in milliseconds.
    #[schema(minimum = 1000, maximum = 86_400_000, nullable = false)]
    pub default_reservation_ttl_ms: Option<i64>,
    /// Longest lifetime that a reservation gets, in milliseconds; longer requests are cut.
    #[schema(minimum = 1000, maximum = 86_400_000, nullable = false)]
    pub max_reservation_ttl_ms: Option<i64>,
    /// How often a reservation may be extended.
    #[schema(minimum = 0, nullable = false)]
    pub max_reservation_extensions: Option<i64>,
    /// Stored and returned; without influence.
    #[schema(nullable = false)]
    pub reservation_expiry_policy: Option<ReservationExpiryPolicy>,
}

impl TenantCreateRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// [`Problems`], all of them.
    pub fn from_json(body: Json) -> Result<Self, Problems> {
        read_body(body, |body| {
            let tenant_id = body.required("tenant_id", |value| {
                let wanted = "must be 3 to 64 characters of a-z 0-9 - other than system";
                let free = |text: &str| text != "system" && TenantId::parse(text).is_some();
                value.checked_string(free, wanted)
            });
            let name = body.required("name", |value| value.text(256));
            let parent_tenant_id = body.optional("parent_tenant_id", |value| value.string(0..=128));
            let metadata = body.optional("metadata", |value| {
                value.string_map(METADATA_MAX, usize::MAX)
            });
            let default_commit_overage_policy =
                body.optional("default_commit_overage_policy", OveragePolicy::read);
            let mut ttl = |name| body.optional(name, |value| value.integer(RESERVATION_TTL_MS));
            let default_reservation_ttl_ms = ttl("default_reservation_ttl_ms");
            let max_reservation_ttl_ms = ttl("max_reservation_ttl_ms");
            let max_reservation_extensions = body.optional("max_reservation_extensions", |value| {
                value.integer(0..=i64::MAX)
            });
            let reservation_expiry_policy =
                body.optional("reservation_expiry_policy", ReservationExpiryPolicy::read);
            Some(Self {
                tenant_id: TenantId::parse(&tenant_id?)?,
                name: name?,
                parent_tenant_id,
                metadata,
                default_commit_overage_policy,
                default_reservation_ttl_ms,
                max_reservation_ttl_ms,
                max_reservation_extensions,
                reservation_expiry_policy,
            })
        })
    }
}

fn metadata_schema() -> Object {
    schema::string_map("Labels of the operator's own.", METADATA_MAX, None)
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Tenant {
    /// Names the tenant.
    #[schema(value_type = String, pattern = "^[a-z0-9-]+$", min_length = 3, max_length = 64)]
    pub tenant_id: TenantId,
    /// For people.
    #[schema(max_length = 256)]
    pub name: String,
    /// Whether it may act.
    pub status: TenantStatus,
    /// For the operator's own order.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub parent_tenant_id: Option<String>,
    /// What a commit above its estimate does when nothing nearer decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub default_commit_overage_policy: Option<OveragePolicy>,
    /// Lifetime of a reservation whose request names none, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        minimum = 1000,
        maximum = 86_400_000,
        default = 60_000,
        nullable = false
    )]
    pub default_reservation_ttl_ms: Option<i64>,
    /// Longest lifetime that a reservation gets, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        minimum = 1000,
        maximum = 86_400_000,
        default = 3_600_000,
        nullable = false
    )]
    pub max_reservation_ttl_ms: Option<i64>,
    /// How often a reservation may be extended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, default = 10, nullable = false)]
    pub max_reservation_extensions: Option<i64>,
    /// Stored and returned; without influence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(default = "AUTO_RELEASE", nullable = false)]
    pub reservation_expiry_policy: Option<ReservationExpiryPolicy>,
    /// Labels of the operator's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = metadata_schema, required = false)]
    pub metadata: Option<BTreeMap<String, String>>,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Moment,
    /// When it was last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub updated_at: Option<Moment>,
    /// When it was last suspended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub suspended_at: Option<Moment>,
    /// When it was closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, format = DateTime, required = false)]
    pub closed_at: Option<Moment>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(body: &str) -> Result<TenantCreateRequest, String> {
        TenantCreateRequest::from_json(Json::parse(body.as_bytes()).unwrap())
            .map_err(|problems| problems.to_string())
    }

    #[test]
    fn a_tenant_needs_an_id_and_a_name() {
        assert!(create(r#"{"tenant_id":"acme","name":"Acme","metadata":null}"#).is_ok());
        for (body, part) in [
            (r#"{"name":"n"}"#, "tenant_id: is required"),
            (
                r#"{"tenant_id":"ACME","name":"n"}"#,
                "tenant_id: must be 3 to 64 characters of a-z 0-9 -",
            ),
            (r#"{"tenant_id":"system","name":"n"}"#, "not `system`"),
            (r#"{"tenant_id":"__admin__","name":"n"}"#, "not `__admin__`"),
            (
                r#"{"tenant_id":"acme","name":" "}"#,
                "name: must not be blank",
            ),
            (
                r#"{"tenant_id":"acme","name":"n","status":"ACTIVE"}"#,
                "unknown member `status`",
            ),
            (
                r#"{"tenant_id":"acme","name":"n","metadata":{"k":1}}"#,
                "metadata.k: must be a string",
            ),
            (
                r#"{"tenant_id":"acme","name":"n","max_reservation_extensions":-1}"#,
                "max_reservation_extensions: must be between 0",
            ),
        ] {
            let message = create(body).unwrap_err();
            assert!(message.contains(part), "{body}: {message}");
        }
    }

    #[test]
    fn problems_after_a_wrong_id_are_named_too() {
        let message =
            create(r#"{"tenant_id":"A","name":"","max_reservation_ttl_ms":1,"x":0}"#).unwrap_err();
        for part in [
            "tenant_id:",
            "name:",
            "max_reservation_ttl_ms:",
            "unknown member `x`",
        ] {
            assert!(message.contains(part), "{message}");
        }
    }
}
