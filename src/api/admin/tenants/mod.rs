//! Tenants as requests and responses show them.

pub mod create;
pub mod get;
pub mod list;
pub mod update;

pub use list::{TenantListResponse, Tenants};

use std::collections::BTreeMap;

use crate::api::operation::parameters::{self, Parameter, text};
use crate::domain::fields::{Blank, object};
use crate::domain::ids::TenantId;
use crate::domain::moment::Moment;
use crate::domain::policy::OveragePolicy;
use crate::domain::reservation::RESERVATION_TTL_MS;
use crate::domain::tenant::{ReservationExpiryPolicy, TenantStatus, record};

/// Most entries in a tenant's `metadata`.
pub const METADATA_MAX: usize = 32;

object! {
    /// Creates a tenant.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TenantCreateRequest: Read {
        /// Id that the operator chooses; cannot change. `system` is reserved.
        pub tenant_id: TenantId { form: &TenantId::FORM },
        /// Name; need not be unique.
        pub name: String { chars: 1..=256, blank: Blank::Refused },
        /// Parent of the tenant; without influence.
        pub parent_tenant_id: Option<String> { chars: ..=128 },
        /// Labels that the operator chooses.
        pub metadata: Option<BTreeMap<String, String>> { entries: ..=METADATA_MAX },
        /// What a commit above its estimate does where neither reservation, policy nor budget says.
        pub default_commit_overage_policy: Option<OveragePolicy>,
        /// Lifetime of a reservation whose request names none, in milliseconds.
        pub default_reservation_ttl_ms: Option<i64> { range: RESERVATION_TTL_MS },
        /// Longest lifetime that a reservation gets, in milliseconds; longer requests are capped.
        pub max_reservation_ttl_ms: Option<i64> { range: RESERVATION_TTL_MS },
        /// How often a reservation may be extended.
        pub max_reservation_extensions: Option<i64> { range: 0.. },
        /// Stored and returned; without influence.
        pub reservation_expiry_policy: Option<ReservationExpiryPolicy>,
    }
}

object! {
    /// A tenant.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Tenant: Show {
        /// Id of the tenant.
        pub tenant_id: TenantId { form: &TenantId::FORM },
        /// Name.
        pub name: String { chars: ..=256 },
        /// Status.
        pub status: TenantStatus,
        /// Parent of the tenant.
        pub parent_tenant_id: Option<String>,
        /// What a commit above its estimate does where neither reservation, policy nor budget says.
        pub default_commit_overage_policy: Option<OveragePolicy>,
        /// Lifetime of a reservation whose request names none, in milliseconds.
        pub default_reservation_ttl_ms: Option<i64> { range: RESERVATION_TTL_MS, default: 60_000 },
        /// Longest lifetime that a reservation gets, in milliseconds.
        pub max_reservation_ttl_ms: Option<i64> { range: RESERVATION_TTL_MS, default: 3_600_000 },
        /// How often a reservation may be extended.
        pub max_reservation_extensions: Option<i64> { range: 0.., default: 10 },
        /// Stored and returned; without influence.
        pub reservation_expiry_policy: Option<ReservationExpiryPolicy> {
            default: ReservationExpiryPolicy::AutoRelease,
        },
        /// Labels that the operator chooses.
        pub metadata: Option<BTreeMap<String, String>> { entries: ..=METADATA_MAX },
        /// When it was created.
        pub created_at: Moment,
        /// When it was last changed.
        pub updated_at: Option<Moment>,
        /// When it was last suspended.
        pub suspended_at: Option<Moment>,
        /// When it was closed.
        pub closed_at: Option<Moment>,
    }
}

impl From<record::Tenant> for Tenant {
    fn from(tenant: record::Tenant) -> Self {
        Self {
            tenant_id: tenant.tenant_id,
            name: tenant.name,
            status: tenant.status,
            parent_tenant_id: tenant.parent_tenant_id,
            default_commit_overage_policy: tenant.default_commit_overage_policy,
            default_reservation_ttl_ms: tenant.default_reservation_ttl_ms,
            max_reservation_ttl_ms: tenant.max_reservation_ttl_ms,
            max_reservation_extensions: tenant.max_reservation_extensions,
            reservation_expiry_policy: tenant.reservation_expiry_policy,
            metadata: tenant.metadata,
            created_at: tenant.created_at,
            updated_at: tenant.updated_at,
            suspended_at: tenant.suspended_at,
            closed_at: tenant.closed_at,
        }
    }
}

fn tenant_id() -> Parameter {
    parameters::path("tenant_id", "Names the tenant.", text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::fields::Read as _;
    use crate::domain::json::Json;

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
