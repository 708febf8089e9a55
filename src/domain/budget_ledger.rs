//! A ledger as it is recorded: its figures, its status and what an operator set.

use super::amount::Unit;
use super::policy::OveragePolicy;
use super::reservation::{Record, RecordError};

/// Whether a ledger takes part in decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetStatus {
    /// It does.
    Active,
    /// No new reservation, no funding.
    Frozen,
    /// For good.
    Closed,
}

impl BudgetStatus {
    /// The word of the wire and of the record.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "ACTIVE",
            Self::Frozen => "FROZEN",
            Self::Closed => "CLOSED",
        }
    }

    /// Reads the word; case matters.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Active, Self::Frozen, Self::Closed]
            .into_iter()
            .find(|status| status.as_str() == word)
    }
}

/// What becomes of a rest at the end of a period. Stored and shown; nothing acts on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloverPolicy {
    /// It lapses.
    None,
    /// It is carried over.
    CarryForward,
    /// It is carried over up to the allocation.
    CapAtAllocated,
}

impl RolloverPolicy {
    /// The word of the wire and of the record.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::CarryForward => "CARRY_FORWARD",
            Self::CapAtAllocated => "CAP_AT_ALLOCATED",
        }
    }

    /// Reads the word; case matters.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::None, Self::CarryForward, Self::CapAtAllocated]
            .into_iter()
            .find(|policy| policy.as_str() == word)
    }
}

/// A ledger's record. Times are milliseconds on the store's clock.
#[derive(Debug, Clone)]
pub struct BudgetLedger {
    /// Made by the service.
    pub ledger_id: String,
    /// Whose it is.
    pub tenant_id: String,
    /// Canonical scope.
    pub scope: String,
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
    /// RFC 3339; stored and shown.
    pub period_start: Option<String>,
    /// RFC 3339; stored and shown.
    pub period_end: Option<String>,
    /// When it was opened.
    pub created_at_ms: i64,
    /// When an operator last changed it.
    pub updated_at_ms: Option<i64>,
}

impl BudgetLedger {
    /// Reads the stored fields.
    ///
    /// # Errors
    /// [`RecordError`] names the field.
    pub fn from_record(record: &Record) -> Result<Self, RecordError> {
        let text = |name: &str| record.get(name).map(str::to_owned);
        Ok(Self {
            ledger_id: record.text("ledger_id")?.to_owned(),
            tenant_id: record.text("tenant")?.to_owned(),
            scope: record.text("scope")?.to_owned(),
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
            period_start: text("period_start"),
            period_end: text("period_end"),
            created_at_ms: record.integer("created_at_ms")?,
            updated_at_ms: record.optional_integer("updated_at_ms")?,
        })
    }
}

/// How a ledger is funded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FundingOperation {
    /// Adds to what is allocated.
    Credit,
    /// Takes away from what is allocated, as far as it remains.
    Debit,
    /// Sets what is allocated.
    Reset,
    /// Sets what is allocated and what was spent.
    ResetSpent,
    /// Pays debt; what exceeds it is added to what is allocated.
    RepayDebt,
}

impl FundingOperation {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Credit,
        Self::Debit,
        Self::Reset,
        Self::ResetSpent,
        Self::RepayDebt,
    ];

    /// The word of the wire and of the scripts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Credit => "CREDIT",
            Self::Debit => "DEBIT",
            Self::Reset => "RESET",
            Self::ResetSpent => "RESET_SPENT",
            Self::RepayDebt => "REPAY_DEBT",
        }
    }

    /// Reads the word; case matters.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|operation| operation.as_str() == word)
    }
}
