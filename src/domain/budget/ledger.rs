//! A ledger as it is recorded: its figures, its status and what an operator set.

use super::funding::{BudgetStatus, RolloverPolicy};
use crate::domain::amount::Unit;
use crate::domain::ids::TenantId;
use crate::domain::moment::Moment;
use crate::domain::policy::OveragePolicy;
use crate::domain::record::{Record, RecordError};
use crate::domain::scope::ScopePath;

/// A ledger's record. Times are on the store's clock.
#[derive(Debug, Clone)]
pub struct BudgetLedger {
    /// Made by the service.
    pub ledger_id: String,
    /// Whose it is.
    pub tenant_id: TenantId,
    /// Canonical scope.
    pub scope: ScopePath,
    /// What all the figures count.
    pub unit: Unit,
    /// What may be spent in all.
    pub allocated: i64,
    /// What is left to reserve.
    pub remaining: i64,
    /// What active reservations hold.
    pub reserved: i64,
    /// What was charged.
    pub spent: i64,
    /// What was charged beyond the funds.
    pub debt: i64,
    /// How much debt is allowed.
    pub overdraft_limit: i64,
    /// Whether new reservations are refused until it is funded.
    pub is_over_limit: bool,
    /// What a commit above the estimate does; `None`: what the tenant says.
    pub commit_overage_policy: Option<OveragePolicy>,
    /// Whether it takes part in decisions.
    pub status: BudgetStatus,
    /// Stored and shown.
    pub rollover_policy: Option<RolloverPolicy>,
    /// Stored and shown.
    pub period_start: Option<Moment>,
    /// Stored and shown.
    pub period_end: Option<Moment>,
    /// When it was opened.
    pub created_at: Moment,
    /// When an operator last changed it.
    pub updated_at: Option<Moment>,
}

impl BudgetLedger {
    /// Reads the stored fields.
    ///
    /// # Errors
    /// [`RecordError`] names the field.
    pub fn from_record(record: &Record) -> Result<Self, RecordError> {
        Ok(Self {
            ledger_id: record.text("ledger_id")?.to_owned(),
            tenant_id: record.word("tenant", TenantId::parse)?,
            scope: record.word("scope", ScopePath::parse)?,
            unit: record.unit()?,
            allocated: record.integer("allocated")?,
            remaining: record.integer("remaining")?,
            reserved: record.integer("reserved")?,
            spent: record.integer("spent")?,
            debt: record.integer("debt")?,
            overdraft_limit: record.integer("overdraft_limit")?,
            is_over_limit: record.text("is_over_limit")? == "1",
            commit_overage_policy: record
                .optional_word("commit_overage_policy", OveragePolicy::parse)?,
            status: record.word("status", BudgetStatus::parse)?,
            rollover_policy: record.optional_word("rollover_policy", RolloverPolicy::parse)?,
            period_start: record.optional_word("period_start", Moment::parse)?,
            period_end: record.optional_word("period_end", Moment::parse)?,
            created_at: record.moment("created_at_ms")?,
            updated_at: record.optional_moment("updated_at_ms")?,
        })
    }
}
