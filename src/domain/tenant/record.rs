//! A tenant as it is recorded.

use std::collections::BTreeMap;

use crate::domain::fields::{Patch, Read};
use crate::domain::ids::TenantId;
use crate::domain::moment::Moment;
use crate::domain::policy::OveragePolicy;
use crate::domain::record::{Record, RecordError};
use crate::domain::tenant::{ReservationExpiryPolicy, TenantStatus};

/// A tenant to be recorded. What is left open is filled in with the built-in defaults.
#[derive(Debug, Clone)]
pub struct NewTenant {
    /// Chosen by the operator, for good.
    pub tenant_id: TenantId,
    /// Not unique.
    pub name: String,
    /// Informational; not checked.
    pub parent_tenant_id: Option<String>,
    /// Default: what remains is charged.
    pub default_commit_overage_policy: Option<OveragePolicy>,
    /// Default 60,000.
    pub default_reservation_ttl_ms: Option<i64>,
    /// Default 3,600,000. Longer requests are shortened, not refused.
    pub max_reservation_ttl_ms: Option<i64>,
    /// Default 10.
    pub max_reservation_extensions: Option<i64>,
    /// Default: the hold returns by itself.
    pub reservation_expiry_policy: Option<ReservationExpiryPolicy>,
    /// The operator's own.
    pub metadata: Option<BTreeMap<String, String>>,
}

impl NewTenant {
    /// Names and values of the record besides id, name, status and times.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let overage = self.default_commit_overage_policy;
        let expiry = self.reservation_expiry_policy;
        let number = |value: Option<i64>, default: i64| value.unwrap_or(default).to_string();
        let mut fields = vec![
            (
                "default_commit_overage_policy",
                overage
                    .unwrap_or(OveragePolicy::AllowIfAvailable)
                    .as_str()
                    .to_owned(),
            ),
            (
                "default_reservation_ttl_ms",
                number(self.default_reservation_ttl_ms, 60_000),
            ),
            (
                "max_reservation_ttl_ms",
                number(self.max_reservation_ttl_ms, 3_600_000),
            ),
            (
                "max_reservation_extensions",
                number(self.max_reservation_extensions, 10),
            ),
            (
                "reservation_expiry_policy",
                expiry
                    .unwrap_or(ReservationExpiryPolicy::AutoRelease)
                    .as_str()
                    .to_owned(),
            ),
        ];
        if let Some(parent) = &self.parent_tenant_id {
            fields.push(("parent_tenant_id", parent.clone()));
        }
        if let Some(metadata) = &self.metadata {
            let json = serde_json::to_string(metadata).unwrap_or_default();
            fields.push(("metadata", json));
        }
        fields
    }
}

/// What is to be changed of a tenant; what is none stays.
#[derive(Debug, Clone, Default)]
pub struct TenantUpdate {
    /// Not unique.
    pub name: Option<String>,
    /// Whether it may act.
    pub status: Option<TenantStatus>,
    /// For ledgers that have none of their own.
    pub default_commit_overage_policy: Option<OveragePolicy>,
    /// For requests that name no lifetime.
    pub default_reservation_ttl_ms: Option<i64>,
    /// Longest lifetime.
    pub max_reservation_ttl_ms: Option<i64>,
    /// How often a reservation may be extended.
    pub max_reservation_extensions: Option<i64>,
    /// The operator's own, replaced as a whole.
    pub metadata: Patch<BTreeMap<String, String>>,
}

impl TenantUpdate {
    /// Names and values of what is changed in the record besides the status; an empty value takes the field out.
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let number = |value: Option<i64>| value.map(|value| value.to_string());
        let metadata = self.metadata.change();
        let metadata = metadata.map(|map| map.map(Read::to_text).unwrap_or_default());
        let overage = self.default_commit_overage_policy;
        let members = [
            ("name", self.name.clone()),
            (
                "default_commit_overage_policy",
                overage.map(|policy| policy.as_str().to_owned()),
            ),
            (
                "default_reservation_ttl_ms",
                number(self.default_reservation_ttl_ms),
            ),
            (
                "max_reservation_ttl_ms",
                number(self.max_reservation_ttl_ms),
            ),
            (
                "max_reservation_extensions",
                number(self.max_reservation_extensions),
            ),
            ("metadata", metadata),
        ];
        let given = members.into_iter();
        given
            .filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }
}

/// A tenant's record. Times are on the store's clock.
#[derive(Debug, Clone)]
pub struct Tenant {
    /// Chosen by the operator.
    pub tenant_id: TenantId,
    /// Not unique.
    pub name: String,
    /// Whether it may act.
    pub status: TenantStatus,
    /// Informational.
    pub parent_tenant_id: Option<String>,
    /// For ledgers that have none of their own.
    pub default_commit_overage_policy: Option<OveragePolicy>,
    /// For requests that name no lifetime.
    pub default_reservation_ttl_ms: Option<i64>,
    /// Longest lifetime.
    pub max_reservation_ttl_ms: Option<i64>,
    /// How often a reservation may be extended.
    pub max_reservation_extensions: Option<i64>,
    /// Stored and shown.
    pub reservation_expiry_policy: Option<ReservationExpiryPolicy>,
    /// The operator's own.
    pub metadata: Option<BTreeMap<String, String>>,
    /// When it was recorded.
    pub created_at: Moment,
    /// When it was last changed.
    pub updated_at: Option<Moment>,
    /// When it was last suspended; stays when it may act again.
    pub suspended_at: Option<Moment>,
    /// When it was closed.
    pub closed_at: Option<Moment>,
}

impl Tenant {
    /// Reads the stored fields.
    ///
    /// # Errors
    /// [`RecordError`] names the field.
    pub fn from_record(record: &Record) -> Result<Self, RecordError> {
        let metadata = record.get("metadata").map(serde_json::from_str).transpose();
        Ok(Self {
            tenant_id: record.word("tenant_id", TenantId::parse)?,
            name: record.text("name")?.to_owned(),
            status: record.word("status", TenantStatus::parse)?,
            parent_tenant_id: record.get("parent_tenant_id").map(str::to_owned),
            default_commit_overage_policy: record
                .optional_word("default_commit_overage_policy", OveragePolicy::parse)?,
            default_reservation_ttl_ms: record.optional_integer("default_reservation_ttl_ms")?,
            max_reservation_ttl_ms: record.optional_integer("max_reservation_ttl_ms")?,
            max_reservation_extensions: record.optional_integer("max_reservation_extensions")?,
            reservation_expiry_policy: record
                .optional_word("reservation_expiry_policy", ReservationExpiryPolicy::parse)?,
            metadata: metadata.map_err(|_| RecordError::of("metadata"))?,
            created_at: record.moment("created_at_ms")?,
            updated_at: record.optional_moment("updated_at_ms")?,
            suspended_at: record.optional_moment("suspended_at_ms")?,
            closed_at: record.optional_moment("closed_at_ms")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_open_is_filled_in() {
        let mut tenant = NewTenant {
            tenant_id: TenantId::parse("acme").expect("an id"),
            name: "Acme".to_owned(),
            parent_tenant_id: None,
            default_commit_overage_policy: None,
            default_reservation_ttl_ms: None,
            max_reservation_ttl_ms: None,
            max_reservation_extensions: None,
            reservation_expiry_policy: None,
            metadata: None,
        };
        let defaults = [
            ("default_commit_overage_policy", "ALLOW_IF_AVAILABLE"),
            ("default_reservation_ttl_ms", "60000"),
            ("max_reservation_ttl_ms", "3600000"),
            ("max_reservation_extensions", "10"),
            ("reservation_expiry_policy", "AUTO_RELEASE"),
        ];
        assert_eq!(tenant.fields(), defaults.map(|(n, v)| (n, v.to_owned())));

        tenant.max_reservation_extensions = Some(0);
        tenant.metadata = Some(BTreeMap::from([("a".to_owned(), "b".to_owned())]));
        tenant.parent_tenant_id = Some("holding".to_owned());
        let mut pairs: Vec<String> = tenant
            .fields()
            .into_iter()
            .flat_map(|(n, v)| [n.to_owned(), v])
            .collect();
        for text in [
            "tenant_id",
            "acme",
            "name",
            "Acme",
            "status",
            "ACTIVE",
            "created_at_ms",
            "5",
        ] {
            pairs.push(text.to_owned());
        }
        let read = Tenant::from_record(&Record::from_pairs(pairs)).expect("a sound record");
        assert_eq!(read.max_reservation_extensions, Some(0));
        assert_eq!(read.metadata, tenant.metadata);
        assert_eq!(read.parent_tenant_id.as_deref(), Some("holding"));
        assert_eq!(
            (read.status, read.created_at.as_ms()),
            (TenantStatus::Active, 5)
        );
    }
}
