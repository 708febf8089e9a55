//! Tenants: created once, read, listed.

use std::cmp::Ordering;

use super::audit::entry;
use super::cursor::Cursor;
use super::{Admin, AdminError, Parts, Request, refuse};
use crate::domain::admin_refusal::AdminRefusal;
use crate::domain::ids::TenantId;
use crate::domain::tenant::{NewTenant, Tenant, TenantStatus};

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

    /// The text by which rows are compared and a cursor is placed; times with all their digits.
    fn key(self, tenant: &Tenant) -> String {
        match self {
            Self::TenantId => tenant.tenant_id.clone(),
            Self::Name => tenant.name.clone(),
            Self::Status => tenant.status.as_str().to_owned(),
            Self::CreatedAt => format!("{:019}", tenant.created_at_ms.max(0)),
        }
    }
}

/// Tenants that are asked for.
#[derive(Debug, Clone, Default)]
pub struct TenantQuery {
    /// Of this status.
    pub status: Option<TenantStatus>,
    /// With exactly this parent.
    pub parent_tenant_id: Option<String>,
    /// Whose id or name contains this, whatever the case.
    pub search: Option<String>,
    /// `None`: by creation, or by id where there are too many to sort.
    pub sort_by: Option<TenantSort>,
    /// Smallest first.
    pub ascending: bool,
    /// Where the last page ended.
    pub cursor: Option<String>,
    /// Rows at most, at least 1.
    pub limit: usize,
}

/// A page of tenants.
#[derive(Debug)]
pub struct TenantPage {
    /// In order.
    pub tenants: Vec<Tenant>,
    /// Where the next page starts, when there may be one.
    pub next_cursor: Option<String>,
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
    /// [`AdminRefusal::BadCursor`]; [`AdminRefusal::TooManyToSort`] for a sort that was asked for and has no index.
    pub async fn list_tenants(&self, query: &TenantQuery) -> Result<TenantPage, AdminError> {
        let cursor = match &query.cursor {
            Some(text) => match Cursor::decode(text, &query.filters()) {
                Some(cursor) => Some(cursor),
                None => return refuse(AdminRefusal::BadCursor),
            },
            None => None,
        };
        let wanted = query.sort_by.unwrap_or(TenantSort::CreatedAt);
        let descending = !query.ascending;
        if let Some(cursor) = &cursor {
            let fallen_back =
                query.sort_by.is_none() && cursor.sort == TenantSort::TenantId.as_str();
            if cursor.descending != descending || (cursor.sort != wanted.as_str() && !fallen_back) {
                return refuse(AdminRefusal::BadCursor);
            }
            if fallen_back {
                return self.tenants_by_id(query, Some(cursor)).await;
            }
        }
        if wanted == TenantSort::TenantId {
            return self.tenants_by_id(query, cursor.as_ref()).await;
        }
        match self.matching_tenants(query).await? {
            Some(tenants) => Ok(sorted_page(tenants, query, wanted, cursor.as_ref())),
            None if query.sort_by.is_none() && cursor.is_none() => {
                self.tenants_by_id(query, None).await
            }
            None => refuse(AdminRefusal::TooManyToSort {
                bound: SORT_MATCHES_MAX,
            }),
        }
    }

    /// Along the directory.
    async fn tenants_by_id(
        &self,
        query: &TenantQuery,
        cursor: Option<&Cursor>,
    ) -> Result<TenantPage, AdminError> {
        let sort = TenantSort::TenantId;
        let (mut tenants, mut examined) = (Vec::new(), 0);
        let mut after = cursor.map(|cursor| cursor.id.clone());
        let next = |id: &str| query.cursor_after(sort, id.to_owned(), id.to_owned());
        loop {
            let (rows, last) = self.directory_step(query, after.as_deref()).await?;
            for tenant in rows {
                if tenants.len() == query.limit {
                    let next_cursor = tenants
                        .last()
                        .map(|tenant: &Tenant| next(&tenant.tenant_id));
                    return Ok(TenantPage {
                        tenants,
                        next_cursor,
                    });
                }
                tenants.push(tenant);
            }
            examined += STEP_ROWS;
            let Some(last) = last else {
                return Ok(TenantPage {
                    tenants,
                    next_cursor: None,
                });
            };
            if examined >= PAGE_ROWS_MAX {
                let next_cursor = Some(next(&last));
                return Ok(TenantPage {
                    tenants,
                    next_cursor,
                });
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
    async fn directory_step(
        &self,
        query: &TenantQuery,
        after: Option<&str>,
    ) -> Result<(Vec<Tenant>, Option<String>), AdminError> {
        let descending = query.sort_by == Some(TenantSort::TenantId) && !query.ascending;
        let descending = descending || (query.sort_by.is_none() && !query.ascending);
        let entries = self
            .store
            .directory_page(after, descending, STEP_ROWS)
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
        for record in self.store.tenant_records(&ids).await? {
            // The directory learns of a tenant before the record is written.
            if record.is_empty() {
                continue;
            }
            let tenant = Tenant::from_record(&record)?;
            if query.matches(&tenant) {
                tenants.push(tenant);
            }
        }
        Ok((tenants, last))
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
                found(&tenant.tenant_id, &search) || found(&tenant.name, &search)
            })
    }

    /// What a cursor is bound to besides the order.
    fn filters(&self) -> [&str; 3] {
        [
            self.status.map_or("", TenantStatus::as_str),
            self.parent_tenant_id.as_deref().unwrap_or(""),
            self.search.as_deref().unwrap_or(""),
        ]
    }

    fn cursor_after(&self, sort: TenantSort, key: String, id: String) -> String {
        Cursor::after(sort.as_str(), !self.ascending, key, id, &self.filters()).encode()
    }
}

/// The page behind the cursor.
fn sorted_page(
    tenants: Vec<Tenant>,
    query: &TenantQuery,
    sort: TenantSort,
    cursor: Option<&Cursor>,
) -> TenantPage {
    let order = |a: (&str, &str), b: (&str, &str)| -> Ordering {
        let by_key = a.0.cmp(b.0);
        let by_key = if query.ascending {
            by_key
        } else {
            by_key.reverse()
        };
        by_key.then(a.1.cmp(b.1))
    };
    let mut rows: Vec<(String, Tenant)> = tenants
        .into_iter()
        .map(|tenant| (sort.key(&tenant), tenant))
        .collect();
    if let Some(cursor) = cursor {
        let position = (cursor.key.as_str(), cursor.id.as_str());
        rows.retain(|(key, tenant)| order((key, &tenant.tenant_id), position) == Ordering::Greater);
    }
    rows.sort_by(|(a_key, a), (b_key, b)| order((a_key, &a.tenant_id), (b_key, &b.tenant_id)));
    let more = rows.len() > query.limit;
    rows.truncate(query.limit);
    let last = rows.last().filter(|_| more);
    let next_cursor =
        last.map(|(key, tenant)| query.cursor_after(sort, key.clone(), tenant.tenant_id.clone()));
    let tenants = rows.into_iter().map(|(_, tenant)| tenant).collect();
    TenantPage {
        tenants,
        next_cursor,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(id: &str, name: &str, created_at_ms: i64) -> Tenant {
        Tenant {
            tenant_id: id.to_owned(),
            name: name.to_owned(),
            status: TenantStatus::Active,
            parent_tenant_id: None,
            default_commit_overage_policy: None,
            default_reservation_ttl_ms: None,
            max_reservation_ttl_ms: None,
            max_reservation_extensions: None,
            reservation_expiry_policy: None,
            metadata: None,
            created_at_ms,
            updated_at_ms: None,
            suspended_at_ms: None,
            closed_at_ms: None,
        }
    }

    /// All pages of a sort, as one list of ids.
    fn walked(sort: TenantSort, ascending: bool) -> Vec<String> {
        let tenants = || {
            vec![
                tenant("bbb", "same", 9),
                tenant("aaa", "same", 10),
                tenant("ccc", "other", 10),
                tenant("ddd", "Zed", 2),
            ]
        };
        let mut query = TenantQuery {
            ascending,
            limit: 1,
            ..TenantQuery::default()
        };
        let mut ids = Vec::new();
        loop {
            let cursor = query
                .cursor
                .as_deref()
                .and_then(|text| Cursor::decode(text, &query.filters()));
            let page = sorted_page(tenants(), &query, sort, cursor.as_ref());
            ids.extend(page.tenants.into_iter().map(|tenant| tenant.tenant_id));
            if page.next_cursor.is_none() {
                return ids;
            }
            query.cursor = page.next_cursor;
        }
    }

    #[test]
    fn pages_follow_the_order_and_ties_the_ascending_id() {
        assert_eq!(
            walked(TenantSort::CreatedAt, true),
            ["ddd", "bbb", "aaa", "ccc"]
        );
        assert_eq!(
            walked(TenantSort::CreatedAt, false),
            ["aaa", "ccc", "bbb", "ddd"]
        );
        assert_eq!(walked(TenantSort::Name, true), ["ddd", "ccc", "aaa", "bbb"]);
        assert_eq!(
            walked(TenantSort::Status, false),
            ["aaa", "bbb", "ccc", "ddd"]
        );
    }

    #[test]
    fn filters_and_search_must_all_hold() {
        let acme = tenant("acme", "Größe GmbH", 1);
        let query = |search: &str| TenantQuery {
            search: Some(search.to_owned()),
            status: Some(TenantStatus::Active),
            ..TenantQuery::default()
        };
        for (search, matches) in [("ACM", true), ("größe g", true), ("x", false)] {
            assert_eq!(query(search).matches(&acme), matches, "{search}");
        }
        let parent = TenantQuery {
            parent_tenant_id: Some("holding".to_owned()),
            ..query("acme")
        };
        assert!(!parent.matches(&acme));
    }
}
