//! Walking ledgers in the order of tenants and scopes: one tenant's by a script that judges the caller's key, those of all
//! tenants by the directory.

use tracing::error;

use super::{BudgetPlace, BudgetQuery};
use crate::admin::AdminError;
use crate::domain::budget::ledger::BudgetLedger;
use crate::domain::caller::Caller;
use crate::domain::ids::TenantId;
use crate::domain::record::Record;
use crate::store::admin::budget_lists::LedgerRange;
use crate::store::{ExtraTrip, Store};

/// Ledgers of one tenant that one script call reads.
const SCRIPT_ROWS: usize = 200;
/// Tenants, and ledgers of several, that one pipeline reads.
const PIPELINE_ROWS: usize = 500;
/// Tenants that are looked at to see whether their ledgers can be sorted.
const TENANTS_MAX: usize = 50_000;

/// One entry of an index.
pub(super) struct Row {
    /// Where it stands.
    pub place: BudgetPlace,
    /// The ledger, if it can be read and the key may see it.
    pub ledger: Option<BudgetLedger>,
}

/// What a step of a walk comes to.
pub(super) enum Step {
    /// The next entries, in order; perhaps none of many tenants.
    Rows(Vec<Row>),
    /// All in all there are more than were asked for.
    TooMany,
    /// There are no more.
    End,
}

/// A walk that remembers where it is.
pub(super) struct Walk<'a> {
    store: &'a Store,
    caller: &'a Caller,
    /// Whose ledgers; `None` for all tenants'.
    owner: Option<TenantId>,
    scope_prefix: &'a str,
    descending: bool,
    reached: Option<BudgetPlace>,
    /// Rows of the next step.
    rows: usize,
    steps: usize,
    looked_at: usize,
    complete: bool,
}

impl<'a> Walk<'a> {
    /// From the query's place on. Without a filter, the first step brings a page and one more, to know whether another
    /// follows.
    pub fn new(
        store: &'a Store,
        caller: &'a Caller,
        query: &'a BudgetQuery,
        owner: Option<TenantId>,
    ) -> Self {
        let all = if owner.is_some() {
            SCRIPT_ROWS
        } else {
            PIPELINE_ROWS
        };
        Self {
            store,
            caller,
            owner,
            scope_prefix: query.filter.scope_prefix.as_deref().unwrap_or_default(),
            descending: query.descending,
            reached: query.after.clone(),
            rows: if query.filter.is_open() {
                query.limit + 1
            } else {
                all
            },
            steps: 0,
            looked_at: 0,
            complete: false,
        }
    }

    /// From the beginning to the end.
    pub fn gathering(
        store: &'a Store,
        caller: &'a Caller,
        query: &'a BudgetQuery,
        owner: Option<TenantId>,
    ) -> Self {
        let rows = if owner.is_some() {
            SCRIPT_ROWS
        } else {
            PIPELINE_ROWS
        };
        Self {
            reached: None,
            rows,
            ..Self::new(store, caller, query, owner)
        }
    }

    /// Where the walk is.
    pub fn reached(&self) -> Option<BudgetPlace> {
        self.reached.clone()
    }

    /// Ledgers, and tenants, that were looked at.
    pub fn looked_at(&self) -> usize {
        self.looked_at
    }

    /// Whether nothing is left.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether all tenants together may have at most so many ledgers. What one tenant has, its first step tells.
    pub async fn holds_at_most(&self, bound: usize) -> Result<bool, AdminError> {
        if self.owner.is_some() {
            return Ok(true);
        }
        let (mut count, mut tenants, mut after) = (0, 0, None::<String>);
        loop {
            let page = self
                .store
                .directory_page(after.as_deref(), false, PIPELINE_ROWS);
            let ids = page.await?;
            let parsed: Vec<_> = ids.iter().filter_map(|id| TenantId::parse(id)).collect();
            count += self.store.count_ledgers(&parsed, self.scope_prefix).await?;
            tenants += ids.len();
            if count > bound || tenants > TENANTS_MAX {
                return Ok(false);
            }
            after = ids.last().filter(|_| ids.len() == PIPELINE_ROWS).cloned();
            if after.is_none() {
                return Ok(true);
            }
        }
    }

    /// The next rows, if there are at most `bound` in all.
    pub async fn step(&mut self, bound: Option<usize>) -> Result<Step, AdminError> {
        if self.complete {
            return Ok(Step::End);
        }
        if self.steps > 0 {
            self.store.metrics().extra_trip(ExtraTrip::Paging);
        }
        self.steps += 1;
        let step = match self.owner.clone() {
            Some(owner) => self.step_of_tenant(&owner, bound).await?,
            None => Step::Rows(self.step_of_all().await?),
        };
        self.rows = if self.owner.is_some() {
            SCRIPT_ROWS
        } else {
            PIPELINE_ROWS
        };
        // They may have become more since they were counted.
        let grown = bound.is_some_and(|bound| self.looked_at > bound + TENANTS_MAX);
        Ok(if grown { Step::TooMany } else { step })
    }

    async fn step_of_tenant(
        &mut self,
        owner: &TenantId,
        bound: Option<usize>,
    ) -> Result<Step, AdminError> {
        let after = self.reached.take().map(|place| place.id);
        let range = LedgerRange {
            scope_prefix: self.scope_prefix,
            after: after.as_deref(),
            descending: self.descending,
        };
        let listed = self
            .store
            .list_budgets(self.caller, owner, range, self.rows, bound)
            .await?;
        let Some(listed) = listed else {
            return Ok(Step::TooMany);
        };
        self.complete = listed.complete;
        self.looked_at += listed.ledgers.len();
        let mut rows = Vec::with_capacity(listed.ledgers.len());
        for (entry, record) in listed.ledgers {
            let ledger = readable(owner, &entry, record);
            rows.push(Row {
                place: place(owner, entry),
                ledger: ledger.filter(|ledger| listed.scope_filter.admits(&ledger.scope)),
            });
        }
        self.reached = rows.last().map(|row| row.place.clone());
        Ok(Step::Rows(rows))
    }

    /// Some tenants on from where the walk is, as many of their ledgers as one pipeline reads.
    async fn step_of_all(&mut self) -> Result<Vec<Row>, AdminError> {
        let within = self.reached.take();
        let (mut tenants, mut entry) = (Vec::new(), None);
        let mut beyond = None;
        if let Some(place) = within {
            // Behind an entry, its tenant may have more.
            if !place.id.is_empty() {
                tenants.extend(TenantId::parse(&place.value));
                entry = Some(place.id);
            }
            beyond = Some(place.value);
        }
        let ids = self
            .store
            .directory_page(beyond.as_deref(), self.descending, self.rows)
            .await?;
        self.complete = ids.len() < self.rows;
        let mut behind = ids.last().cloned().or(beyond);
        tenants.extend(ids.iter().filter_map(|id| TenantId::parse(id)));
        let range = LedgerRange {
            scope_prefix: self.scope_prefix,
            after: entry.as_deref(),
            descending: self.descending,
        };
        let lists = self
            .store
            .ledger_entries(&tenants, range, self.rows)
            .await?;
        let mut names = Vec::new();
        for (tenant, list) in tenants.iter().zip(lists) {
            let (full, room) = (list.len() == self.rows, self.rows - names.len());
            let cut = list.len() > room;
            names.extend(
                list.into_iter()
                    .take(room)
                    .map(|entry| (tenant.clone(), entry)),
            );
            if full || cut || names.len() == self.rows {
                // There may be more of this tenant.
                self.complete = false;
                behind = None;
                break;
            }
        }
        self.looked_at += names.len().max(tenants.len());
        let records = self.store.ledger_records(&names).await?;
        let rows: Vec<Row> = names
            .into_iter()
            .zip(records)
            .map(|((tenant, entry), record)| Row {
                ledger: readable(&tenant, &entry, record),
                place: place(&tenant, entry),
            })
            .collect();
        let end = |tenant: String| BudgetPlace {
            value: tenant,
            id: String::new(),
        };
        self.reached = behind
            .map(end)
            .or_else(|| rows.last().map(|row| row.place.clone()));
        Ok(rows)
    }
}

fn place(tenant: &TenantId, entry: String) -> BudgetPlace {
    BudgetPlace {
        value: tenant.to_string(),
        id: entry,
    }
}

/// The ledger of a record; none where the index is ahead of it. One damaged record must not take the whole list away.
fn readable(tenant: &TenantId, entry: &str, record: Option<Record>) -> Option<BudgetLedger> {
    if record.as_ref().is_some_and(Record::is_empty) {
        return None;
    }
    let ledger = record.and_then(|record| BudgetLedger::from_record(&record).ok());
    let sound = ledger.filter(|ledger| {
        let figures = [
            ledger.allocated,
            ledger.reserved,
            ledger.spent,
            ledger.debt,
            ledger.overdraft_limit,
        ];
        figures.iter().all(|figure| *figure >= 0)
    });
    if sound.is_none() {
        error!(
            tenant.id = %tenant, ledger = entry,
            "the ledger `{entry}` of `{tenant}` is corrupt and left out of a list"
        );
    }
    sound
}
