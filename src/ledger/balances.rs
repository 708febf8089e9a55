//! Reading a tenant's ledgers, page by page.

use tracing::error;

use super::walk::STEP_ROWS;
use super::{Ledger, LedgerError, done};
use crate::domain::amount::Unit;
use crate::domain::budget::Balance;
use crate::domain::caller::RuntimeCaller;
use crate::domain::scope::{ScopePath, SegmentFilter};
use crate::store::ExtraTrip;

/// Ledgers that are asked for.
#[derive(Debug)]
pub struct BalanceQuery {
    /// Segments that a scope must have.
    pub segments: SegmentFilter,
    /// Entries at most.
    pub limit: usize,
    /// Scope and unit where the last page ended.
    pub after: Option<(ScopePath, Unit)>,
}

/// A page of ledgers in canonical order: by scope, then by unit.
#[derive(Debug)]
pub struct BalancePage {
    /// The ledgers.
    pub balances: Vec<Balance>,
    /// Scope and unit of the last one that was looked at, when there may be more.
    pub next: Option<(ScopePath, Unit)>,
}

/// Rows that one page looks at; with a sparse filter a page may be short, and its cursor goes on.
const PAGE_ROWS_MAX: usize = 5_000;

impl Ledger {
    /// A page of the caller's ledgers.
    ///
    /// # Errors
    /// [`crate::domain::refusal::Refusal`] when the key is not good or lacks the permission.
    pub async fn balances(
        &self,
        caller: &RuntimeCaller,
        query: &BalanceQuery,
    ) -> Result<BalancePage, LedgerError> {
        let (mut found, mut examined) = (Vec::new(), 0);
        let mut last = query.after.clone();
        let mut after = last
            .as_ref()
            .map(|(scope, unit)| format!("{scope} {} {unit}", unit.index()));
        // One more than the page, to know whether another follows. How many rows match a filter is not known before.
        let mut step = match query.segments.is_within_tenant() {
            true => STEP_ROWS,
            false => STEP_ROWS.min(query.limit + 1),
        };
        loop {
            let answer = self
                .store
                .list_balances(caller, after.as_deref(), step)
                .await?;
            step = STEP_ROWS;
            let page = done(answer)?;
            let complete = page.complete;
            for (entry, balance) in page.ledgers {
                examined += 1;
                after = Some(entry.clone());
                let Some(balance) = balance else {
                    // One damaged ledger must not take a tenant's whole list away.
                    error!(
                        ledger = entry,
                        "the ledger `{entry}` is corrupt and left out of balances"
                    );
                    last = place(&entry).or(last);
                    continue;
                };
                let shown = query.segments.matches(&balance.scope)
                    && page.scope_filter.admits(&balance.scope);
                if shown && found.len() == query.limit {
                    return Ok(BalancePage {
                        balances: found,
                        next: last,
                    });
                }
                last = Some((balance.scope.clone(), balance.unit));
                if shown {
                    found.push(balance);
                }
            }
            if complete {
                return Ok(BalancePage {
                    balances: found,
                    next: None,
                });
            }
            if examined >= PAGE_ROWS_MAX {
                return Ok(BalancePage {
                    balances: found,
                    next: last,
                });
            }
            self.store.metrics().extra_trip(ExtraTrip::Paging);
        }
    }
}

/// Scope and unit of an index entry.
fn place(entry: &str) -> Option<(ScopePath, Unit)> {
    let (scope, unit) = entry.split_once(' ')?;
    let (_, unit) = unit.split_once(' ')?;
    Some((ScopePath::parse(scope)?, Unit::parse(unit)?))
}
