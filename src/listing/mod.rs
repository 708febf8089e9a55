//! Lists: what is asked of one, and the page that is the response.
//!
//! Along an index, a page costs in proportion to its rows ([`page_along`]). Any other order examines all rows, within bounds,
//! and sorts those that match. [`page`] does what the order needs. A list gives its [`Walk`], which examines an index step by
//! step, and its orders, which say the position of a row.
//!
//! ```ignore
//! impl Walk for TenantWalk<'_> {
//!     type Row = Tenant;
//!     type Error = StoreError;
//!
//!     async fn step(&mut self, range: StepRange<'_>) -> Result<Step<Tenant>, StoreError> {
//!         let ids = self.store.directory_page(range.after_id(), range.descending, range.rows).await?;
//!         let complete = ids.len() < range.rows;
//!         let rows = self.read(&ids).await?; // `None` for a record that is gone, damaged or does not match.
//!         let entry = |(id, row)| Entry { position: Position::of_id(id), row };
//!         Ok(Step::new(ids.into_iter().zip(rows).map(entry).collect(), complete))
//!     }
//! }
//!
//! orders! {
//!     TenantSort of tenant: Tenant {
//!         rows: "tenants", advice: "narrow the filters, or sort by tenant_id",
//!         id: tenant.tenant_id, default: Name, indexed: [TenantId]
//!     }
//!     TenantId = "tenant_id": SortValue::Absent,
//!     Name = "name": tenant.name.as_str(),
//! }
//!
//! page(&mut walk, query, Bounds::default()).await
//! ```

mod pages;
mod permits;
mod position;
mod scans;
#[cfg(test)]
mod tests;
mod walk;

use std::fmt::Display;

use tracing::error;

use crate::domain::ids::TenantId;
use crate::domain::refusal::TooManySorts;

pub use pages::{Bounds, Sorted, page, page_along};
pub use permits::{SortPermit, SortPermits};
pub(crate) use position::orders;
pub use position::{OneOrder, Position, RowOrder, Sort, SortKey, SortValue};
pub use scans::ScanBudget;
pub use walk::{Entry, STEP_ROWS, Step, StepRange, Walk, each};

/// A query of a list.
#[derive(Debug, Clone)]
pub struct ListQuery<F, K> {
    /// The filter.
    pub filter: F,
    /// In which order.
    pub sort: Sort<K>,
    /// Whether an order with an index may replace a sort of too many rows.
    pub any_order: bool,
    /// Where the last page ended, in the same order; `None` for the first page.
    pub after: Option<Position>,
    /// Rows on the page at most, at least 1.
    pub limit: usize,
    /// The limits, and the tenant to which they apply; `None`: they do not.
    pub limits: Option<(ListLimits, TenantId)>,
}

/// What limits the lists of each tenant at this replica. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct ListLimits {
    /// How many it sorts at the same time.
    pub sorts: SortPermits,
    /// How many rows it examines in vain.
    pub scans: ScanBudget,
}

impl<F, K: SortKey> ListQuery<F, K> {
    /// The first page in one order.
    pub fn new(filter: F, by: K, descending: bool, limit: usize) -> Self {
        Self {
            filter,
            sort: Sort { by, descending },
            any_order: false,
            after: None,
            limit,
            limits: None,
        }
    }

    /// Whether its order has an index.
    pub fn has_index(&self) -> bool {
        K::INDEXED.contains(&self.sort.by)
    }

    /// Takes the permit to sort, if it needs one.
    fn permit<T>(&self) -> Result<Option<SortPermit<'_>>, TooManySorts>
    where
        K: RowOrder<T>,
    {
        let Some((limits, tenant)) = &self.limits else {
            return Ok(None);
        };
        let permit = limits.sorts.take(tenant);
        permit.map(Some).ok_or_else(|| TooManySorts {
            tenant: tenant.clone(),
            limit: SortPermits::PER_TENANT,
            advice: K::ADVICE,
        })
    }

    /// The page without any row.
    pub fn empty_page<T>(&self) -> Page<T, K> {
        Page::new(Vec::new(), self.sort, None)
    }
}

/// A part of a list.
#[derive(Debug, Clone)]
pub struct Page<T, K> {
    /// In order.
    pub rows: Vec<T>,
    /// Their order.
    pub sort: Sort<K>,
    /// After which position the next page starts; `None` on the last page. The next page may turn out to be empty.
    pub next: Option<Position>,
    /// For a list that is taken from a view: all that happened before this time, in milliseconds, could be shown.
    pub as_of_ms: Option<i64>,
    /// For a report: what it covers.
    pub coverage: Option<Coverage>,
}

/// What a report covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    /// Whether all that was asked for is in it.
    pub is_complete: bool,
    /// The first day of which all is known, as `yyyy-mm-dd`.
    pub from: String,
}

impl<T, K> Page<T, K> {
    /// A page that is not taken from a view.
    pub fn new(rows: Vec<T>, sort: Sort<K>, next: Option<Position>) -> Self {
        Self {
            rows,
            sort,
            next,
            as_of_ms: None,
            coverage: None,
        }
    }

    /// The same page of other rows; rows without a counterpart are left out.
    pub fn filter_map<U>(self, row: impl FnMut(T) -> Option<U>) -> Page<U, K> {
        Page {
            rows: self.rows.into_iter().filter_map(row).collect(),
            sort: self.sort,
            next: self.next,
            as_of_ms: self.as_of_ms,
            coverage: self.coverage,
        }
    }
}

/// The value that was read, or `None` for a damaged one: it is logged and left out, so that the rest of the list is shown.
pub fn readable<T>(kind: &str, id: &str, read: Result<T, impl Display>) -> Option<T> {
    let left_out = |damage: &_| {
        error!(
            record.kind = kind, record.id = id, error = %damage,
            "the {kind} `{id}` is left out: {damage}"
        );
    };
    read.inspect_err(left_out).ok()
}
