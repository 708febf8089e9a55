//! A tenant: its requests, its record with the words in it, and its response.

use std::collections::BTreeMap;

use super::fields::{Blank, NAME_CHARS_MAX, Patch, object};
use super::ids::TenantId;
use super::moment::Moment;
use super::policy::OveragePolicy;
use super::reservation::RESERVATION_TTL_MS;
use super::words::words;

/// In a tenant's place: events of what belongs to no tenant. No tenant can be called so.
pub const SYSTEM: &str = "__system__";
/// In a tenant's place: audit entries of requests that act on no tenant, or on one that does not exist.
pub const NO_TENANT: &str = "__admin__";
/// In a tenant's place: audit entries of requests whose caller is unknown.
pub const UNKNOWN_CALLER: &str = "__unauth__";

/// Lifetime of a reservation where neither request, policy nor tenant says, in milliseconds.
pub const RESERVATION_TTL_MS_DEFAULT: i64 = 60_000;

words! {
    /// Whether a tenant may act.
    TenantStatus: "SCREAMING_SNAKE_CASE" {
        /// It may.
        Active,
        /// It may commit, release and read, and begin nothing new.
        Suspended,
        /// It may read. There is no way back.
        Closed,
    }
}

words! {
    /// Treatment of expired reservations. Stored, without effect: every hold returns to its budgets.
    ReservationExpiryPolicy: "SCREAMING_SNAKE_CASE" {
        /// The hold is returned.
        AutoRelease,
        /// An operator returns it.
        ManualCleanup,
        /// The hold is returned after its grace.
        GraceOnly,
    }
}

/// Longest lifetime of a reservation where the tenant does not say, in milliseconds.
const RESERVATION_TTL_MS_MAX_DEFAULT: i64 = 3_600_000;
/// How often a reservation may be extended where the tenant does not say.
const RESERVATION_EXTENSIONS_DEFAULT: i64 = 10;
/// Most entries in `metadata`.
const METADATA_MAX: usize = 32;

object! {
    /// Creates a tenant.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TenantCreateRequest: Read + Written {
        /// Id that the operator chooses; cannot change. `system` is reserved.
        pub tenant_id: TenantId { form: &TenantId::FORM, recorded: false },
        /// Name; need not be unique.
        pub name: String { chars: 1..=NAME_CHARS_MAX, blank: Blank::Refused, recorded: false },
        /// Parent of the tenant; without effect.
        pub parent_tenant_id: Option<String> { chars: ..=128 },
        /// Labels that the operator chooses.
        pub metadata: Option<BTreeMap<String, String>> { entries: ..=METADATA_MAX },
        /// Overage policy of commits above their estimate, unless reservation, policy or budget set it.
        pub default_commit_overage_policy: OveragePolicy { unpublished_default: OveragePolicy::DEFAULT },
        /// Lifetime of a reservation whose request names none, in milliseconds.
        pub default_reservation_ttl_ms: i64 {
            range: RESERVATION_TTL_MS, unpublished_default: RESERVATION_TTL_MS_DEFAULT,
        },
        /// Longest lifetime that a reservation gets, in milliseconds; longer requests are capped.
        pub max_reservation_ttl_ms: i64 {
            range: RESERVATION_TTL_MS, unpublished_default: RESERVATION_TTL_MS_MAX_DEFAULT,
        },
        /// How often a reservation may be extended.
        pub max_reservation_extensions: i64 { range: 0.., unpublished_default: RESERVATION_EXTENSIONS_DEFAULT },
        /// Stored and returned, without effect.
        pub reservation_expiry_policy: ReservationExpiryPolicy {
            unpublished_default: ReservationExpiryPolicy::AutoRelease,
        },
    }
}

object! {
    /// Changes a tenant. Absent members keep their values.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct TenantUpdateRequest: Read + Written {
        /// Name; need not be unique.
        pub name: Option<String> { chars: 1..=NAME_CHARS_MAX, blank: Blank::Refused },
        /// Status. `CLOSED` is final, and closes everything that the tenant owns.
        pub status: Option<TenantStatus> { recorded: false },
        /// Labels that the operator chooses, replaced as a whole; `null` removes them.
        pub metadata: Patch<BTreeMap<String, String>> { entries: ..=METADATA_MAX },
        /// Overage policy of commits above their estimate, unless reservation, policy or budget set it.
        pub default_commit_overage_policy: Option<OveragePolicy>,
        /// Lifetime of a reservation whose request names none, in milliseconds.
        pub default_reservation_ttl_ms: Option<i64> { range: RESERVATION_TTL_MS },
        /// Longest lifetime that a reservation gets, in milliseconds; longer requests are capped.
        pub max_reservation_ttl_ms: Option<i64> { range: RESERVATION_TTL_MS },
        /// How often a reservation may be extended.
        pub max_reservation_extensions: Option<i64> { range: 0.. },
    }
}

object! {
    /// A tenant.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Tenant: Serialize + Recorded {
        /// Id of the tenant.
        pub tenant_id: TenantId { form: &TenantId::FORM },
        /// Name.
        pub name: String { chars: ..=NAME_CHARS_MAX },
        /// Status.
        pub status: TenantStatus,
        /// Parent of the tenant.
        pub parent_tenant_id: Option<String>,
        /// Overage policy of commits above their estimate, unless reservation, policy or budget set it.
        pub default_commit_overage_policy: Option<OveragePolicy>,
        /// Lifetime of a reservation whose request names none, in milliseconds.
        pub default_reservation_ttl_ms: Option<i64> { range: RESERVATION_TTL_MS, default: RESERVATION_TTL_MS_DEFAULT },
        /// Longest lifetime that a reservation gets, in milliseconds.
        pub max_reservation_ttl_ms: Option<i64> { range: RESERVATION_TTL_MS, default: RESERVATION_TTL_MS_MAX_DEFAULT },
        /// How often a reservation may be extended.
        pub max_reservation_extensions: Option<i64> { range: 0.., default: RESERVATION_EXTENSIONS_DEFAULT },
        /// Stored and returned, without effect.
        pub reservation_expiry_policy: Option<ReservationExpiryPolicy> {
            default: ReservationExpiryPolicy::AutoRelease,
        },
        /// Labels that the operator chooses.
        pub metadata: Option<BTreeMap<String, String>> { entries: ..=METADATA_MAX },
        /// When it was created.
        pub created_at: Moment { field: "created_at_ms" },
        /// When it was last changed.
        pub updated_at: Option<Moment> { field: "updated_at_ms" },
        /// When it was last suspended; stays when it is active again.
        pub suspended_at: Option<Moment> { field: "suspended_at_ms" },
        /// When it was closed.
        pub closed_at: Option<Moment> { field: "closed_at_ms" },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::fields::{Read as _, read_body};
    use crate::domain::record::Record;
    use crate::domain::rows;

    fn fields(body: &str) -> Vec<(&'static str, String)> {
        let request = TenantCreateRequest::parse_json(body).expect("a sound request");
        let fields = request.fields().into_iter();
        fields
            .map(|change| (change.field, change.value.expect("set")))
            .collect()
    }

    #[test]
    fn absent_members_get_defaults() {
        let defaults = [
            ("default_commit_overage_policy", "ALLOW_IF_AVAILABLE"),
            ("default_reservation_ttl_ms", "60000"),
            ("max_reservation_ttl_ms", "3600000"),
            ("max_reservation_extensions", "10"),
            ("reservation_expiry_policy", "AUTO_RELEASE"),
        ];
        assert_eq!(
            fields(r#"{"tenant_id":"acme","name":"Acme"}"#),
            defaults.map(|(name, value)| (name, value.to_owned()))
        );

        let body = r#"{"tenant_id":"acme","name":"Acme","max_reservation_extensions":0,"metadata":{"a":"b"},
            "parent_tenant_id":"holding"}"#;
        let stored = Record::from_iter(fields(body))
            .with("tenant_id", "acme")
            .with("name", "Acme")
            .with("status", "ACTIVE")
            .with("created_at_ms", "5");
        let read = Tenant::from_record(&stored).expect("a sound record");
        assert_eq!(read.max_reservation_extensions, Some(0));
        let metadata = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        assert_eq!(read.metadata, Some(metadata));
        assert_eq!(read.parent_tenant_id.as_deref(), Some("holding"));
        assert_eq!(read.status, TenantStatus::Active);
        assert_eq!(read.created_at.as_ms(), 5);
    }

    fn create(body: &str) -> Result<TenantCreateRequest, String> {
        read_body(body)
    }

    #[test]
    fn a_tenant_needs_an_id_and_a_name() {
        assert!(create(r#"{"tenant_id":"acme","name":"Acme","metadata":null}"#).is_ok());
        for (body, part) in rows(
            r#"
            {"name":"n"} => tenant_id: is required
            {"tenant_id":"ACME","name":"n"} => tenant_id: must be 3 to 64 characters of a-z 0-9 -
            {"tenant_id":"system","name":"n"} => not `system`
            {"tenant_id":"__admin__","name":"n"} => not `__admin__`
            {"tenant_id":"acme","name":" "} => name: must not be blank
            {"tenant_id":"acme","name":"n","status":"ACTIVE"} => unknown member `status`
            {"tenant_id":"acme","name":"n","metadata":{"k":1}} => metadata.k: must be a string
            {"tenant_id":"acme","name":"n","max_reservation_extensions":-1} => max_reservation_extensions: must be between 0
            "#,
        ) {
            let message = create(body).unwrap_err();
            assert!(message.contains(part), "{body}: {message}");
        }
    }

    #[test]
    fn problems_besides_a_wrong_id_are_named() {
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

    fn update(body: &str) -> Result<TenantUpdateRequest, String> {
        read_body(body)
    }

    #[test]
    fn absent_members_stay_and_null_removes_labels_too() {
        let nothing = update("{}").expect("a change of nothing");
        assert_eq!((nothing.status, nothing.metadata), (None, Patch::Keep));
        let nulls = update(r#"{"name":null,"status":null,"metadata":null}"#).expect("a change");
        assert_eq!((nulls.name, nulls.metadata), (None, Patch::Clear));
    }

    #[test]
    fn fixed_members_are_unknown_in_an_update() {
        for (body, part) in rows(
            r#"
            {"reservation_expiry_policy":"GRACE_ONLY"} => unknown member `reservation_expiry_policy`
            {"parent_tenant_id":"x"} => unknown member `parent_tenant_id`
            {"tenant_id":"acme"} => unknown member `tenant_id`
            {"status":"closed"} => status: must be one of ACTIVE
            {"name":" "} => name: must not be blank
            {"max_reservation_ttl_ms":999} => max_reservation_ttl_ms:
            {"metadata":{"a":1}} => metadata.a: must be a string
            "#,
        ) {
            let message = update(body).expect_err("refused");
            assert!(message.contains(part), "{body}: {message}");
        }
    }
}
