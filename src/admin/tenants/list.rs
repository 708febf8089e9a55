//! Lists of tenants. The order of ids has an index, the directory; in any other order all that match are sorted.

use crate::admin::{Admin, records};
use crate::domain::ids::TenantId;
use crate::domain::search::Search;
use crate::domain::tenant::Tenant;
use crate::domain::tenant::TenantStatus;
use crate::listing::{Bounds, ListQuery, Page, Position, SortValue, Step, StepRange, Walk, orders};
use crate::store::{Store, StoreError};

orders! {
    /// Sorts of the list of tenants.
    TenantSort of tenant: Tenant {
        rows: "tenants", advice: "narrow the filters, or sort by tenant_id",
        id: tenant.tenant_id, default: CreatedAt, indexed: [TenantId], fallback: TenantId,
        ties_ascend: true
    }
    /// The id; the order that has an index.
    TenantId = "tenant_id": SortValue::Absent,
    /// The name.
    Name = "name": tenant.name.as_str(),
    /// The status.
    Status = "status": tenant.status.as_str(),
    /// The time of creation.
    CreatedAt = "created_at": tenant.created_at.as_ms(),
}

/// A filter of tenants; all conditions must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantFilter {
    /// Of this status.
    pub status: Option<TenantStatus>,
    /// With exactly this parent.
    pub parent_tenant_id: Option<String>,
    /// A part of the id or name.
    pub search: Option<Search>,
}

impl TenantFilter {
    fn matches(&self, tenant: &Tenant) -> bool {
        let texts = [tenant.tenant_id.as_str(), &tenant.name];
        let found = |search: &Search| search.finds_any(texts);
        self.status.is_none_or(|status| tenant.status == status)
            && (self.parent_tenant_id.is_none() || self.parent_tenant_id == tenant.parent_tenant_id)
            && self.search.as_ref().is_none_or(found)
    }
}

/// A query of the list of tenants.
pub type TenantQuery = ListQuery<TenantFilter, TenantSort>;
/// A page of tenants.
pub type TenantPage = Page<Tenant, TenantSort>;

impl Admin {
    /// A page of all tenants.
    ///
    /// # Errors
    /// [`crate::domain::refusal::TooManyToSort`] for an order that must be kept and has no index.
    pub async fn list_tenants(&self, query: &TenantQuery) -> Result<TenantPage, StoreError> {
        let mut walk = TenantWalk::new(&self.store, &query.filter);
        records::page(&self.store, &mut walk, query, Bounds::default()).await
    }
}

/// A walk along the directory.
pub(in crate::admin) struct TenantWalk<'a> {
    store: &'a Store,
    filter: &'a TenantFilter,
}

impl<'a> TenantWalk<'a> {
    pub fn new(store: &'a Store, filter: &'a TenantFilter) -> Self {
        Self { store, filter }
    }
}

impl Walk for TenantWalk<'_> {
    type Row = Tenant;
    type Error = StoreError;

    fn is_filtered(&self) -> bool {
        *self.filter != TenantFilter::default()
    }

    async fn step(&mut self, range: StepRange<'_>) -> Result<Step<Tenant>, StoreError> {
        let (store, filter) = (self.store, self.filter);
        let directory = store.directory_page(range.after_id(), range.descending, range.rows);
        let ids = directory.await?;
        let complete = ids.len() < range.rows;
        let entries = ids.into_iter().map(Position::of_id).collect();
        let key = |entry: &Position| {
            let id = TenantId::parse(&entry.id)?;
            Some(store.keys().tenant(id.partition(), id.as_str()))
        };
        let read = |_: &Position, record: &_| Tenant::from_record(record);
        let fields = Tenant::field_names();
        let step = records::step(store, "tenant", (entries, complete), (key, &fields), read);
        Ok(step.await?.filter(|tenant| filter.matches(tenant)))
    }
}

#[cfg(test)]
mod tests;
