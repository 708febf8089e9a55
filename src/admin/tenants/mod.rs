//! Tenants: created once, read, listed.

pub mod closing;
pub(crate) mod update;

use std::cmp::Ordering;

use super::audit::entry;
use super::{Admin, AdminError, Parts, Request, refuse};
use crate::domain::ids::TenantId;
use crate::domain::refusal::admin::AdminRefusal;
use crate::domain::reservation::Record;
use crate::domain::tenant::TenantStatus;
use crate::domain::tenant::record::{NewTenant, Tenant};
use crate::store::StoreError;
use tracing::error;

/// Entries of the directory that are read at once.
const STEP_ROWS: usize = 500;
/// Entries that one page in the order of ids looks at; with a sparse filter it may be short, and its cursor goes on.
const PAGE_ROWS_MAX: usize = 5_000;
/// Matches that a sort by anything but the id gathers, and entries that it looks at for them.
const SORT_MATCHES_MAX: usize = 10_000;
const SORT_ROWS_MAX: usize = 50_000;

/// By what a list of tenants is sorted. Ties stand in ascending order of the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TenantSort {
    /// The id; the one order that has an index.
    TenantId,
    /// The name.
    Name,
    /// The status word.
    Status,
    /// When it was recorded.
    CreatedAt,
}

impl TenantSort {
    /// The word of the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TenantId => "tenant_id",
            Self::Name => "name",
            Self::Status => "status",
            Self::CreatedAt => "created_at",
        }
    }

    /// Reads the word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::TenantId, Self::Name, Self::Status, Self::CreatedAt]
            .into_iter()
            .find(|sort| sort.as_str() == word)
    }

    /// The text by which rows are compared; times with all their digits.
    fn value(self, tenant: &Tenant) -> String {
        match self {
            Self::TenantId => tenant.tenant_id.to_string(),
            Self::Name => tenant.name.clone(),
            Self::Status => tenant.status.as_str().to_owned(),
            Self::CreatedAt => format!("{:019}", tenant.created_at.as_ms().max(0)),
        }
    }
}

/// A row's place in the order of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantPlace {
    /// The row's value of what the list is sorted by, as [`TenantSort`] compares it.
    pub value: String,
    /// The row's id.
    pub id: String,
}

/// Tenants that are asked for.
#[derive(Debug, Clone)]
pub struct TenantQuery {
    /// Of this status.
    pub status: Option<TenantStatus>,
    /// With exactly this parent.
    pub parent_tenant_id: Option<String>,
    /// Whose id or name contains this, whatever the case.
    pub search: Option<String>,
    /// The order.
    pub sort: TenantSort,
    /// Largest first.
    pub descending: bool,
    /// Whether the order of ids may stand in where there are too many to sort.
    pub any_order: bool,
    /// Where the last page ended, in the same order.
    pub after: Option<TenantPlace>,
    /// Rows at most, at least 1.
    pub limit: usize,
}

/// A page of tenants.
#[derive(Debug)]
pub struct TenantPage {
    /// In order.
    pub tenants: Vec<Tenant>,
    /// The order that they stand in.
    pub sort: TenantSort,
    /// Behind which place the next page starts, when there may be one.
    pub next: Option<TenantPlace>,
}

impl Admin {
    /// Records a tenant, or finds the one of the same id and name; `true` when it was recorded.
    ///
    /// # Errors
    /// [`AdminRefusal::DuplicateTenant`] when the id has another name, whatever its status.
    pub async fn create_tenant(
        &self,
        tenant: &NewTenant,
        request: &Request<'_>,
    ) -> Result<(bool, Tenant), AdminError> {
        let id = tenant.tenant_id.as_str();
        let mut audit = entry(request.cause, "createTenant", "tenant", id);
        audit.push(("metadata.name", tenant.name.clone()));
        let parts = Parts::of(request, "createTenant", audit);
        let created = self.store.create_tenant(tenant, &parts.change()).await?;
        Ok((created.created, Tenant::from_record(&created.record)?))
    }

    /// A tenant as it is, closed ones as well.
    ///
    /// # Errors
    /// [`AdminRefusal::TenantNotFound`].
    pub async fn get_tenant(&self, tenant: &TenantId) -> Result<Tenant, AdminError> {
        match self.store.get_tenant(tenant).await? {
            Some(stored) => Ok(Tenant::from_record(&stored.record)?),
            None => refuse(AdminRefusal::TenantNotFound),
        }
    }

    /// A page of all tenants.
    ///
    /// # Errors
    /// [`AdminRefusal::TooManyToSort`] for a sort that must be kept and has no index.
    pub async fn list_tenants(&self, query: &TenantQuery) -> Result<TenantPage, AdminError> {
        if query.sort == TenantSort::TenantId {
            return self.tenants_by_id(query).await;
        }
        match self.matching_tenants(query).await? {
            Some(tenants) => Ok(sorted_page(tenants, query)),
            None if query.any_order && query.after.is_none() => self.tenants_by_id(query).await,
            None => refuse(AdminRefusal::TooManyToSort {
                bound: SORT_MATCHES_MAX,
            }),
        }
    }

    /// Along the directory.
    async fn tenants_by_id(&self, query: &TenantQuery) -> Result<TenantPage, AdminError> {
        let mut page = TenantPage {
            tenants: Vec::new(),
            sort: TenantSort::TenantId,
            next: None,
        };
        let place = |id: &str| TenantPlace {
            value: id.to_owned(),
            id: id.to_owned(),
        };
        let mut after = query.after.as_ref().map(|place| place.id.clone());
        let mut examined = 0;
        loop {
            let (rows, last) = self.directory_step(query, after.as_deref()).await?;
            for tenant in rows {
                if page.tenants.len() == query.limit {
                    page.next = page
                        .tenants
                        .last()
                        .map(|tenant| place(tenant.tenant_id.as_str()));
                    return Ok(page);
                }
                page.tenants.push(tenant);
            }
            examined += STEP_ROWS;
            let Some(last) = last else {
                return Ok(page);
            };
            if examined >= PAGE_ROWS_MAX {
                page.next = Some(place(&last));
                return Ok(page);
            }
            after = Some(last);
        }
    }

    /// All that match, `None` where they are too many.
    async fn matching_tenants(
        &self,
        query: &TenantQuery,
    ) -> Result<Option<Vec<Tenant>>, AdminError> {
        let (mut tenants, mut examined, mut after) = (Vec::new(), 0, None);
        loop {
            let (rows, last) = self.directory_step(query, after.as_deref()).await?;
            tenants.extend(rows);
            examined += STEP_ROWS;
            if last.is_none() && tenants.len() <= SORT_MATCHES_MAX {
                return Ok(Some(tenants));
            }
            if tenants.len() > SORT_MATCHES_MAX || examined >= SORT_ROWS_MAX {
                return Ok(None);
            }
            after = last;
        }
    }

    /// The matches among the next entries of the directory, and the last of these unless the directory ends there.
    pub(super) async fn directory_step(
        &self,
        query: &TenantQuery,
        after: Option<&str>,
    ) -> Result<(Vec<Tenant>, Option<String>), AdminError> {
        let entries = self
            .store
            .directory_page(after, query.descending, STEP_ROWS)
            .await?;
        let last = entries
            .last()
            .filter(|_| entries.len() == STEP_ROWS)
            .cloned();
        let ids: Vec<TenantId> = entries
            .iter()
            .filter_map(|id| TenantId::parse(id))
            .collect();
        let mut tenants = Vec::new();
        let records = self.store.tenant_records(&ids).await?;
        for (id, record) in ids.iter().zip(records) {
            match readable(record) {
                Ok(tenant) => tenants.extend(tenant.filter(|tenant| query.matches(tenant))),
                // One damaged record must not take the whole list away.
                Err(damage) => error!(
                    tenant.id = %id, error = %damage,
                    "the tenant `{id}` is left out of lists: {damage}"
                ),
            }
        }
        Ok((tenants, last))
    }
}

/// The tenant of a record; none where the directory has learnt of it and the record is not yet written.
fn readable(record: Result<Record, StoreError>) -> Result<Option<Tenant>, AdminError> {
    let record = record?;
    match record.is_empty() {
        true => Ok(None),
        false => Ok(Some(Tenant::from_record(&record)?)),
    }
}

impl TenantQuery {
    fn matches(&self, tenant: &Tenant) -> bool {
        let found = |text: &str, search: &str| text.to_lowercase().contains(search);
        let search = self.search.as_ref().map(|search| search.to_lowercase());
        self.status.is_none_or(|status| tenant.status == status)
            && self
                .parent_tenant_id
                .as_ref()
                .is_none_or(|parent| tenant.parent_tenant_id.as_ref() == Some(parent))
            && search.is_none_or(|search| {
                found(tenant.tenant_id.as_str(), &search) || found(&tenant.name, &search)
            })
    }
}

/// The page behind the query's place.
fn sorted_page(tenants: Vec<Tenant>, query: &TenantQuery) -> TenantPage {
    let sort = query.sort;
    let order = |a: (&str, &str), b: (&str, &str)| -> Ordering {
        let by_value = a.0.cmp(b.0);
        let by_value = if query.descending {
            by_value.reverse()
        } else {
            by_value
        };
        by_value.then(a.1.cmp(b.1))
    };
    let mut rows: Vec<(String, Tenant)> = tenants
        .into_iter()
        .map(|tenant| (sort.value(&tenant), tenant))
        .collect();
    if let Some(after) = &query.after {
        let place = (after.value.as_str(), after.id.as_str());
        rows.retain(|(value, tenant)| {
            order((value, tenant.tenant_id.as_str()), place) == Ordering::Greater
        });
    }
    rows.sort_by(|(a_value, a), (b_value, b)| {
        order(
            (a_value, a.tenant_id.as_str()),
            (b_value, b.tenant_id.as_str()),
        )
    });
    let more = rows.len() > query.limit;
    rows.truncate(query.limit);
    let next = rows
        .last()
        .filter(|_| more)
        .map(|(value, tenant)| TenantPlace {
            value: value.clone(),
            id: tenant.tenant_id.to_string(),
        });
    let tenants = rows.into_iter().map(|(_, tenant)| tenant).collect();
    TenantPage {
        tenants,
        sort,
        next,
    }
}

#[cfg(test)]
mod tests;
