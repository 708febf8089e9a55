//! Lists of tenants. The order of ids has an index, the directory; in any other order all that match are sorted.

use crate::admin::{Admin, is_too_many, records};
use crate::domain::ids::TenantId;
use crate::domain::record::Record;
use crate::domain::search::Search;
use crate::domain::tenant::Tenant;
use crate::domain::tenant::TenantStatus;
use crate::listing::{
    Bounds, Entry, ListQuery, Page, Position, STEP_ROWS, SortValue, Step, Walk, gather, orders,
    page_along,
};
use crate::store::{Store, StoreError};

orders! {
    /// Sorts of the list of tenants.
    TenantSort of tenant: Tenant {
        rows: "tenants", advice: "narrow the filters, or sort by tenant_id",
        id: tenant.tenant_id, default: CreatedAt, ties_ascend: true
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

    fn is_open(&self) -> bool {
        *self == Self::default()
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
        let (store, bounds) = (&self.store, Bounds::default());
        if query.sort.by != TenantSort::TenantId {
            let mut walk = TenantWalk::new(store, &query.filter);
            let sorted = store
                .serve_gathering(gather(&mut walk, query, bounds))
                .await;
            if !(query.may_fall_back() && is_too_many(&sorted)) {
                return sorted;
            }
        }
        let mut walk = TenantWalk {
            after: query.after.as_ref().map(|after| after.id.clone()),
            descending: query.sort.descending,
            rows: query.first_step(!query.filter.is_open(), STEP_ROWS),
            ..TenantWalk::new(store, &query.filter)
        };
        page_along(&mut walk, query, TenantSort::TenantId, bounds).await
    }
}

/// A walk along the directory.
pub(in crate::admin) struct TenantWalk<'a> {
    store: &'a Store,
    filter: &'a TenantFilter,
    after: Option<String>,
    descending: bool,
    /// Entries of the next step.
    rows: usize,
}

impl<'a> TenantWalk<'a> {
    /// From the first id on.
    pub fn new(store: &'a Store, filter: &'a TenantFilter) -> Self {
        Self {
            store,
            filter,
            after: None,
            descending: false,
            rows: STEP_ROWS,
        }
    }
}

impl Walk for TenantWalk<'_> {
    type Row = Tenant;
    type Error = StoreError;

    async fn step(&mut self) -> Result<Step<Tenant>, StoreError> {
        let rows = std::mem::replace(&mut self.rows, STEP_ROWS);
        let after = self.after.as_deref();
        let page = self.store.directory_page(after, self.descending, rows);
        let entries = page.await?;
        let complete = entries.len() < rows;
        let ids = records::ids(&entries, TenantId::parse);
        let found = self.store.tenant_records(&ids).await?;
        let read = |_: &TenantId, record: &Record| Tenant::from_record(record);
        let tenants = records::rows("tenant", &entries, &ids, found, read);
        self.after = entries.last().cloned();
        let entries = entries
            .into_iter()
            .zip(tenants)
            .map(|(entry, tenant)| Entry {
                position: Position::of_id(entry),
                row: tenant.filter(|tenant| self.filter.matches(tenant)),
            });
        Ok(Step::new(entries.collect(), complete))
    }
}

#[cfg(test)]
mod tests;
