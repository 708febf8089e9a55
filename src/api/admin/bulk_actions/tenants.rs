//! Suspends, reactivates or closes many tenants.

use super::{BulkBody, EMPTY, bulk_action, response};
use crate::admin::{Admin, BulkRequest, TenantFilter};
use crate::api::errors::ApiError;
use crate::api::operation::{Declaration, declare};
use crate::domain::bulk::TenantAction;
use crate::domain::fields::{Blank, object};
use crate::domain::ids::IdempotencyKey;
use crate::domain::search::{SEARCH_CHARS_MAX, Search};
use crate::domain::tenant::TenantStatus;
use crate::store::admin::bulk::BulkResponse;

pub(in crate::api) const BULK_ACTION: Declaration = declare!(
    bulk_action::<TenantBulkActionRequest>,
    "Suspends, reactivates or closes up to 500 tenants"
)
.takes_change::<TenantBulkActionRequest>()
.returns::<TenantBulkActionResponse>(200, "The outcome of each tenant.")
.refuses(&[409]);

object! {
    /// Selects tenants; at least one member.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct TenantBulkFilter: Read + Serialize {
        /// Status.
        pub status: Option<TenantStatus>,
        /// Parent of the tenant, exactly.
        pub parent_tenant_id: Option<String> { blank: Blank::Null },
        /// Must be absent or blank: the service does not support it.
        pub observe_mode: Option<String> { blank: Blank::Null },
        /// Text that id or name must contain, in any case.
        pub search: Option<String> { chars: ..=SEARCH_CHARS_MAX, blank: Blank::Null, trimmed: true },
    }
    check |filter, object| {
        if filter.observe_mode.is_some() {
            object.refuse_member("observe_mode", "must be absent: nothing is observed here");
        }
        if *filter == TenantBulkFilter::default() {
            object.refuse(EMPTY);
        }
    }
}

object! {
    /// Applies one action to many tenants.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct TenantBulkActionRequest: Read {
        /// Selects the tenants.
        pub filter: TenantBulkFilter,
        /// Action.
        pub action: TenantAction,
        /// Expected number of matches; with another number nothing is done.
        pub expected_count: Option<i64> { range: 0.. },
        /// Identifies this attempt: the same key within 15 minutes changes once.
        pub idempotency_key: IdempotencyKey { chars: 1..=128 },
    }
}

response! {
    /// The outcome of each tenant.
    TenantBulkActionResponse: TenantAction
}

impl BulkBody for TenantBulkActionRequest {
    type Filter = TenantBulkFilter;

    fn parts(&self) -> (&Self::Filter, Option<i64>, &IdempotencyKey) {
        (&self.filter, self.expected_count, &self.idempotency_key)
    }

    async fn run(&self, admin: &Admin, bulk: &BulkRequest<'_>) -> Result<BulkResponse, ApiError> {
        let filter = TenantFilter {
            status: self.filter.status,
            parent_tenant_id: self.filter.parent_tenant_id.clone(),
            search: self.filter.search.as_deref().map(Search::new),
        };
        Ok(admin.bulk_tenants(&filter, self.action, bulk).await?)
    }
}
