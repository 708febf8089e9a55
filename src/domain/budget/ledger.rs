//! A budget's ledger: its requests, its record with the words in it, and its response.

use crate::domain::amount::{Amount, SignedAmount, Unit};
use crate::domain::budget::increase::Increases;
use crate::domain::budget::limit::{BudgetLimit, LIMITS_MAX, WindowLimits, repeated};
use crate::domain::budget::period::BudgetPeriod;
pub use crate::domain::budget::period::RolloverPolicy;
use crate::domain::fields::{Blank, Object, Patch, object};
use crate::domain::ids::TenantId;
use crate::domain::json::FreeObject;
use crate::domain::moment::Moment;
use crate::domain::policy::OveragePolicy;
use crate::domain::scope::{SCOPE_CHARS_MAX, ScopePath};
use crate::domain::words::words;

words! {
    /// Whether a ledger may be used.
    BudgetStatus: "SCREAMING_SNAKE_CASE" {
        /// It may.
        Active,
        /// Nothing new may be reserved, charged or funded.
        Frozen,
        /// It has ended with its tenant.
        Closed,
    }
}

words! {
    /// Whether a budget refuses what it has no room for.
    Enforcement: "SCREAMING_SNAKE_CASE" {
        /// It does.
        Enforce,
        /// It only reports what it would have refused, and charges all: what remains may be negative.
        Observe,
    }
}

words! {
    /// How an operator changes a ledger's figures.
    FundingOperation: "SCREAMING_SNAKE_CASE" {
        /// Allocates more.
        Credit,
        /// Allocates less, as far as something remains.
        Debit,
        /// Sets the allocation.
        Reset,
        /// Pays debt back, and allocates what is left of it.
        RepayDebt,
        /// Sets the allocation and what counts as spent.
        ResetSpent,
        /// Begins a new period now, whose end stays. Without a period only what counts as spent starts anew.
        Renew,
    }
}

object! {
    /// Creates a budget at a scope.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct BudgetCreateRequest: Read + Written {
        /// Tenant that owns the budget. Required with the admin key; refused with an API key.
        pub tenant_id: Option<String> { chars: ..=128, recorded: false },
        /// Scope, such as `tenant:acme/workspace:prod`.
        pub scope: String { chars: 1..=SCOPE_CHARS_MAX, blank: Blank::Refused, recorded: false },
        /// Unit of all figures.
        pub unit: Unit { recorded: false },
        /// Allocated amount.
        pub allocated: Amount { recorded: false },
        /// How much debt is allowed.
        pub overdraft_limit: Option<Amount> { recorded: false },
        /// Overage policy of commits above their estimate. Absent: the tenant's setting applies.
        pub commit_overage_policy: Option<OveragePolicy>,
        /// What each period gets from the one before; has an effect only with `period`.
        pub rollover_policy: RolloverPolicy { default: RolloverPolicy::None },
        /// Renews the budget at the start of each period. Absent: it is never renewed.
        pub period: Option<BudgetPeriod>,
        /// Stored and returned without effect. Only without `period`.
        pub period_start: Option<Moment>,
        /// Stored and returned without effect. Only without `period`.
        pub period_end: Option<Moment>,
        /// Limits over windows of time, beside what is allocated.
        pub limits: Vec<BudgetLimit> { items: ..=LIMITS_MAX, default: Vec::new(), recorded: false },
        /// `OBSERVE`: the budget refuses nothing for want of funds, and reports what it would have refused.
        pub enforcement: Option<Enforcement> { default: Enforcement::Enforce },
        /// Data that the operator chooses; not returned.
        pub metadata: Option<FreeObject>,
    }
    check |request, object| {
        let period = request.period.as_ref();
        refuse_terms(&request.limits, period, request.rollover_policy, object);
        for (name, bound) in [("period_start", request.period_start), ("period_end", request.period_end)] {
            if period.is_some() && bound.is_some() {
                object.refuse_member(name, "must be absent beside period, from which it follows");
            }
        }
    }
}

fn is_none_or_empty(increases: &Option<Increases>) -> bool {
    increases.as_ref().is_none_or(Increases::is_empty)
}

/// Refuses what the terms of a new budget contradict each other in.
pub fn refuse_terms(
    limits: &[BudgetLimit],
    period: Option<&BudgetPeriod>,
    rollover: RolloverPolicy,
    object: &mut Object<'_>,
) {
    refuse_repeated(limits, object);
    let carry_limit = period.and_then(|period| period.carry_limit);
    if carry_limit.is_some() && rollover != RolloverPolicy::CarryForward {
        object.refuse_member("period", CARRY_LIMIT_ALONE);
    }
}

fn refuse_repeated(limits: &[BudgetLimit], object: &mut Object<'_>) {
    if let Some(at) = repeated(limits) {
        let reason = format!(
            "[{at}] has the windows of another limit; every, time_zone or anchor must differ"
        );
        object.refuse_member("limits", reason);
    }
}

/// Why a bound of what is carried over is refused.
pub const CARRY_LIMIT_ALONE: &str =
    "carry_limit is allowed with rollover_policy CARRY_FORWARD only";

object! {
    /// Changes the settings of a budget. Absent members keep their values.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct BudgetUpdateRequest: Read + Written {
        /// How much debt is allowed.
        pub overdraft_limit: Option<Amount> { recorded: false },
        /// Overage policy of commits above their estimate; `null`: the tenant's setting applies.
        pub commit_overage_policy: Patch<OveragePolicy>,
        /// What the next period gets from the one before.
        pub rollover_policy: Option<RolloverPolicy>,
        /// Replaces the period as a whole, from now on: the present one becomes that which contains now, and its figures stay. `null`:
        /// the budget is not renewed any more.
        pub period: Patch<BudgetPeriod>,
        /// Replaces all limits over windows of time. One with the windows of a present limit continues its count. `[]` or `null` removes
        /// them.
        pub limits: Patch<Vec<BudgetLimit>> { items: ..=LIMITS_MAX, recorded: false },
        /// Whether the budget refuses what it has no room for, or only reports it.
        pub enforcement: Option<Enforcement>,
        /// Data that the operator chooses, replaced as a whole, not returned; `null` removes it.
        pub metadata: Patch<FreeObject>,
    }
    check |request, object| {
        refuse_repeated(request.limits.value().map_or(&[], Vec::as_slice), object);
    }
}

object! {
    /// A budget with all its figures.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct BudgetLedger: Serialize + Recorded {
        /// Id of the budget.
        pub ledger_id: String,
        /// Tenant that owns the budget.
        pub tenant_id: TenantId { field: "tenant", required: false },
        /// Scope, in lower case.
        pub scope: ScopePath,
        /// Unit of all figures.
        pub unit: Unit,
        /// Allocated amount.
        pub allocated: Amount,
        /// Amount that can still be reserved. Negative in debt.
        pub remaining: SignedAmount,
        /// Amount held by active reservations.
        pub reserved: Amount { required: false },
        /// Charged amount.
        pub spent: Amount { required: false },
        /// Amount charged beyond the available funds.
        pub debt: Amount { required: false },
        /// How much debt is allowed.
        pub overdraft_limit: Amount { required: false },
        /// Whether new reservations are refused until the budget is funded.
        pub is_over_limit: bool { required: false },
        /// Overage policy of commits above their estimate. Absent: the tenant's setting applies.
        pub commit_overage_policy: Option<OveragePolicy>,
        /// Status.
        pub status: BudgetStatus,
        /// What each period gets from the one before.
        pub rollover_policy: Option<RolloverPolicy>,
        /// When and how the budget is renewed. Absent: never.
        pub period: Option<BudgetPeriod>,
        /// Start of the present period.
        pub period_start: Option<Moment>,
        /// End of the present period, and start of the next one.
        pub period_end: Option<Moment>,
        /// Temporary increases of what is allocated, which includes them.
        pub increases: Option<Increases> { skip_if: is_none_or_empty },
        /// Limits over windows of time, each with its present window.
        pub limits: Option<WindowLimits>,
        /// Whether the budget refuses what it has no room for, or only reports it. Absent: it refuses.
        pub enforcement: Option<Enforcement>,
        /// When it was created.
        pub created_at: Moment { field: "created_at_ms" },
        /// When an operator last changed it.
        pub updated_at: Option<Moment> { field: "updated_at_ms" },
    }
    unsent {
        /// The same as `scope`.
        scope_path: ScopePath,
    }
}
