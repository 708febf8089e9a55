//! Walks along ledgers in the order of tenants and scopes: those of one tenant by a script that checks the caller's key,
//! those of all tenants along the directory.

use super::{BudgetFilter, BudgetQuery, BudgetSort};
use crate::admin::records;
use crate::domain::budget::ledger::BudgetLedger;
use crate::domain::caller::ScriptCaller;
use crate::domain::ids::TenantId;
use crate::domain::record::{Record, RecordError};
use crate::listing::{Entry, GATHER_ROWS, Position, RowOrder, Step, Walk, readable};
use crate::store::admin::budget_lists::{FIELDS, LedgerRange, ListBudgets, ListBudgetsReply};
use crate::store::runtime::fields_of;
use crate::store::signature::Fields;
use crate::store::target::Target as _;
use crate::store::{ExtraRoundTrip, Lane, Store, StoreError};

/// Ledgers of one tenant that one script call reads.
const SCRIPT_ROWS: usize = 101;
/// Tenants, and ledgers of several, that one pipeline reads.
const PIPELINE_ROWS: usize = 500;
/// Tenants that are looked at to see whether their ledgers can be sorted.
pub(super) const TENANTS_MAX: usize = 50_000;

/// A walk along the ledgers of one tenant, or of all.
pub(in crate::admin) struct BudgetWalk<'a> {
    store: &'a Store,
    reader: ScriptCaller<'a>,
    filter: &'a BudgetFilter,
    /// The one tenant; `None`: all.
    owner: Option<TenantId>,
    descending: bool,
    reached: Option<Position>,
    /// Entries of the next step.
    rows: usize,
    /// More ledgers than this in the whole range are refused.
    bound: Option<usize>,
    has_begun: bool,
}

impl<'a> BudgetWalk<'a> {
    /// From the first entry on.
    pub fn new(
        store: &'a Store,
        reader: ScriptCaller<'a>,
        filter: &'a BudgetFilter,
        owner: Option<TenantId>,
    ) -> Self {
        let mut walk = Self {
            store,
            reader,
            filter,
            owner,
            descending: false,
            reached: None,
            rows: 0,
            bound: None,
            has_begun: false,
        };
        walk.rows = walk.step_rows();
        walk
    }

    /// Starts after the query's position, in its direction.
    pub fn start_at(&mut self, query: &BudgetQuery) {
        self.descending = query.sort.descending;
        self.reached = query.after.clone();
        self.rows = query.first_step(!self.filter.is_open(), self.step_rows());
    }

    /// Refuses a range of more than `bound` ledgers. Those of one tenant are counted by the first step.
    pub async fn check_count(&mut self, bound: usize) -> Result<(), StoreError> {
        self.bound = Some(bound);
        if self.owner.is_some() {
            return Ok(());
        }
        let (mut count, mut tenants, mut after) = (0, 0, None::<String>);
        loop {
            let page = self
                .store
                .directory_page(after.as_deref(), false, PIPELINE_ROWS);
            let entries = page.await?;
            let ids = records::ids(&entries, TenantId::parse);
            count += self.store.count_ledgers(&ids, self.scope_prefix()).await?;
            tenants += entries.len();
            if count > bound || tenants > TENANTS_MAX {
                return Err(BudgetSort::too_many(bound).into());
            }
            after = entries
                .last()
                .filter(|_| entries.len() == PIPELINE_ROWS)
                .cloned();
            if after.is_none() {
                return Ok(());
            }
        }
    }

    fn step_rows(&self) -> usize {
        match self.owner {
            Some(_) if self.has_begun && self.bound.is_some() => GATHER_ROWS,
            Some(_) => SCRIPT_ROWS,
            None => PIPELINE_ROWS,
        }
    }

    fn scope_prefix(&self) -> &'a str {
        self.filter.scope_prefix.as_deref().unwrap_or_default()
    }

    async fn step_of_tenant(
        &mut self,
        owner: &TenantId,
        rows: usize,
    ) -> Result<Step<BudgetLedger>, StoreError> {
        let after = self.reached.take().map(|position| position.id);
        let call = ListBudgets {
            caller: self.reader,
            tenant: owner,
            scope_prefix: self.scope_prefix(),
            after: after.as_deref(),
            direction: if self.descending { "desc" } else { "asc" },
            rows,
            bound: self.bound,
            names: &FIELDS,
        };
        let listed = owner.outcome(self.store.run(Lane::Background, &call).await)?;
        let ListBudgetsReply::Listed {
            scope_filter,
            complete,
            entry_fields,
        } = listed
        else {
            return Err(BudgetSort::too_many(self.bound.unwrap_or_default()).into());
        };
        let entry = |(entry, fields): (String, Fields)| {
            let record = fields_of(&FIELDS, fields.0);
            let row = readable("ledger", &entry, read(record)).flatten();
            Entry {
                position: Position::new(owner.as_str(), entry),
                row: row.filter(|row| {
                    scope_filter.admits(row.scope.as_str()) && self.filter.matches(row)
                }),
            }
        };
        let entries: Vec<_> = entry_fields.into_iter().map(entry).collect();
        self.reached = entries.last().map(|entry| entry.position.clone());
        Ok(Step::new(entries, complete))
    }

    /// Reads the next tenants, and at most one pipeline of their ledgers.
    async fn step_of_all(&mut self, rows: usize) -> Result<Step<BudgetLedger>, StoreError> {
        let (mut tenants, mut within, mut beyond) = (Vec::new(), None, None);
        if let Some(position) = self.reached.take() {
            let tenant = position.text().unwrap_or_default();
            // After an entry, its tenant may have more.
            if !position.id.is_empty() {
                tenants.extend(TenantId::parse(tenant));
                within = Some(position.id.clone());
            }
            beyond = Some(tenant.to_owned());
        }
        let page = self
            .store
            .directory_page(beyond.as_deref(), self.descending, rows);
        let directory = page.await?;
        let mut complete = directory.len() < rows;
        let mut behind = directory.last().cloned().or(beyond);
        tenants.extend(records::ids(&directory, TenantId::parse));
        let range = LedgerRange {
            scope_prefix: self.scope_prefix(),
            after: within.as_deref(),
            descending: self.descending,
        };
        let lists = self.store.ledger_entries(&tenants, range, rows).await?;
        let mut names = Vec::new();
        for (tenant, list) in tenants.iter().zip(lists) {
            let (full, room) = (list.len() == rows, rows - names.len());
            let cut = list.len() > room;
            let named = list.into_iter().take(room);
            names.extend(named.map(|entry| (tenant.clone(), entry)));
            if full || cut || names.len() == rows {
                // There may be more of this tenant.
                (complete, behind) = (false, None);
                break;
            }
        }
        let ledgers = self.store.ledger_records(&names).await?;
        let entry = |((tenant, entry), record): ((TenantId, String), Option<Record>)| {
            let row = readable("ledger", &entry, read(record)).flatten();
            Entry {
                position: Position::new(tenant.as_str(), entry),
                row: row.filter(|row| self.filter.matches(row)),
            }
        };
        let entries: Vec<_> = names.into_iter().zip(ledgers).map(entry).collect();
        let end = behind.map(|tenant| Position::new(tenant.as_str(), ""));
        self.reached = end.or_else(|| entries.last().map(|entry| entry.position.clone()));
        Ok(Step {
            passed: tenants.len().saturating_sub(entries.len()),
            reached: self.reached.clone(),
            complete,
            ends_page: false,
            entries,
        })
    }
}

impl Walk for BudgetWalk<'_> {
    type Row = BudgetLedger;
    type Error = StoreError;

    async fn step(&mut self) -> Result<Step<BudgetLedger>, StoreError> {
        if std::mem::replace(&mut self.has_begun, true) {
            self.store.extra_round_trip(ExtraRoundTrip::Paging);
        }
        let further = self.step_rows();
        let rows = std::mem::replace(&mut self.rows, further);
        match self.owner.clone() {
            Some(owner) => self.step_of_tenant(&owner, rows).await,
            None => self.step_of_all(rows).await,
        }
    }
}

/// The ledger of a record, `None` where the index is ahead of it.
fn read(record: Option<Record>) -> Result<Option<BudgetLedger>, RecordError> {
    // A key that holds no hash has no field at all.
    let record = record.ok_or_else(|| RecordError::of("ledger_id"))?;
    if record.is_empty() {
        return Ok(None);
    }
    BudgetLedger::from_record(&record).map(Some)
}
