//! Lists of a tenant's policies, in the order of their ids.

use crate::admin::{Admin, refuse};
use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;
use crate::domain::policy::{Policy, PolicyStatus};
use crate::domain::record::Record;
use crate::domain::refusal::TenantRefusal;
use crate::listing::{
    Bounds, Entry, ListQuery, OneOrder, Page, Position, Step, StepRange, Walk, page_along, readable,
};
use crate::store::admin::policies::{BYTES, ListPolicies, ListPoliciesReply, ROWS};
use crate::store::target::Target as _;
use crate::store::{Lane, Store, StoreError};

/// Bytes of records after which a page ends.
const PAGE_BYTES: usize = 1 << 20;

/// Conditions that a listed policy meets, all of them.
#[derive(Debug, Clone)]
pub struct PolicyFilter {
    /// As it was sent: for the admin key alone, ignored from a tenant's.
    pub tenant_id: Option<String>,
    /// With exactly this pattern, whatever the case.
    pub scope_pattern: Option<String>,
    /// Of this status.
    pub status: Option<PolicyStatus>,
}

/// A request for a page of policies.
pub type PolicyQuery = ListQuery<PolicyFilter, OneOrder>;

impl Admin {
    /// A page of one tenant's policies that the key may see.
    ///
    /// # Errors
    /// Refusals: of the key and its scopes; a `tenant_id` that is missing.
    pub async fn list_policies(
        &self,
        caller: &Caller,
        query: &PolicyQuery,
    ) -> Result<Page<Policy, OneOrder>, StoreError> {
        let filter = &query.filter;
        let tenant = match (caller, filter.tenant_id.as_deref()) {
            (Caller::Tenant(caller), _) => caller.tenant.clone(),
            (Caller::Admin(_), None) => return refuse(TenantRefusal::IdMissing),
            (Caller::Admin(_), Some(text)) => match TenantId::parse(text) {
                Some(tenant) => tenant,
                // No tenant has such an id, so it owns no policy.
                None => return Ok(query.empty_page()),
            },
        };
        let mut walk = PolicyWalk {
            store: &self.store,
            caller,
            tenant,
            filter,
            pattern: filter.scope_pattern.as_deref().map(str::to_ascii_lowercase),
            bytes: 0,
        };
        page_along(&mut walk, query, OneOrder::Only, Bounds::default()).await
    }
}

/// A walk along a tenant's policies.
struct PolicyWalk<'a> {
    store: &'a Store,
    caller: &'a Caller,
    tenant: TenantId,
    filter: &'a PolicyFilter,
    /// That of the filter, in lower case.
    pattern: Option<String>,
    /// Of the records that were read.
    bytes: usize,
}

impl Walk for PolicyWalk<'_> {
    type Row = Policy;
    type Error = StoreError;
    const ROWS: usize = ROWS;

    fn is_filtered(&self) -> bool {
        // A key's own scopes may leave few of them.
        !self.caller.is_admin() || self.pattern.is_some() || self.filter.status.is_some()
    }

    async fn step(&mut self, range: StepRange<'_>) -> Result<Step<Policy>, StoreError> {
        let call = ListPolicies {
            caller: self.caller.into(),
            tenant: &self.tenant,
            scope_pattern: self.pattern.as_deref(),
            after: range.after_id(),
            rows: range.rows,
            bytes: BYTES,
        };
        let ListPoliciesReply::Listed {
            scope_filter,
            last,
            complete,
            records,
        } = self
            .tenant
            .outcome(self.store.run(Lane::Background, &call).await)?;
        let texts = records.iter().flat_map(Record::pairs);
        self.bytes += texts
            .map(|(name, value)| name.len() + value.len())
            .sum::<usize>();
        let (pattern, status) = (self.pattern.as_deref(), self.filter.status);
        let is_listed = |policy: &Policy| {
            scope_filter.admits(policy.scope_pattern.as_str())
                && status.is_none_or(|status| status == policy.status)
                && pattern.is_none_or(|pattern| pattern == policy.scope_pattern.as_str())
        };
        let entry = |record: &Record| {
            // A record that has lost its id has no position.
            let id = record.get("policy_id").unwrap_or_default();
            let policy = readable("policy", id, Policy::from_record(record));
            (!id.is_empty()).then(|| Entry {
                position: Position::of_id(id),
                row: policy.filter(is_listed),
            })
        };
        let entries: Vec<_> = records.iter().filter_map(entry).collect();
        Ok(Step {
            passed: records.len() - entries.len(),
            reached: (!last.is_empty()).then(|| Position::of_id(&last)),
            complete,
            ends_page: self.bytes >= PAGE_BYTES,
            entries,
        })
    }
}
