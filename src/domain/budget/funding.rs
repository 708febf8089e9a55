//! The words of a ledger's record and of its funding.

use crate::domain::words::words;

words! {
    /// Whether a ledger may be used.
    BudgetStatus {
        /// It may.
        Active = "ACTIVE",
        /// Nothing new may be reserved, charged or funded.
        Frozen = "FROZEN",
        /// It has ended with its tenant.
        Closed = "CLOSED",
    }
}

words! {
    /// What is to happen at the end of a period. Stored and returned; nothing happens by itself.
    RolloverPolicy {
        /// Nothing is carried over.
        None = "NONE",
        /// What is left is carried over.
        CarryForward = "CARRY_FORWARD",
        /// What is left is carried over, up to the allocation.
        CapAtAllocated = "CAP_AT_ALLOCATED",
    }
}

words! {
    /// How an operator changes a ledger's figures.
    FundingOperation {
        /// Allocates more.
        Credit = "CREDIT",
        /// Allocates less, as far as something remains.
        Debit = "DEBIT",
        /// Sets the allocation.
        Reset = "RESET",
        /// Pays debt back, and allocates what is left of it.
        RepayDebt = "REPAY_DEBT",
        /// Sets the allocation and what counts as spent.
        ResetSpent = "RESET_SPENT",
    }
}
