//! Counts decisions of the runtime plane, how commits compare with their holds, and the holds that requests expire. All series
//! exist from the start, so counting takes no memory and no label comes from a request.

use prometheus::Registry;

use crate::domain::amount::Unit;
use crate::domain::policy::{Overage, OveragePolicy};
use crate::domain::refusal::{Denial, Refusal, ReservationRefusal, TenantRefusal};
use crate::domain::reservation::Decision;
use crate::domain::words::words;
use crate::metrics::metrics;
use crate::store::StoreError;

words! {
    /// The operation that decides; a label.
    DecidedBy: "snake_case" {
        /// A reservation.
        Reserve,
        /// A reservation that is only tried.
        DryRun,
        /// A decision.
        Decide,
        /// A commit.
        Commit,
        /// A release.
        Release,
        /// A refund.
        Refund,
        /// An extension.
        Extend,
        /// A usage event.
        UsageEvent,
    }
}

/// The reason of a denial that has no series of its own.
const OTHER: &str = "OTHER";

impl DecidedBy {
    /// The decisions that allow.
    fn allowing(self) -> &'static [Decision] {
        match self {
            Self::Reserve | Self::DryRun | Self::Decide => {
                &[Decision::Allow, Decision::AllowWithCaps]
            }
            _ => &[Decision::Allow],
        }
    }

    /// The reasons that have a series, in the words of error codes and of decisions. Any other is counted as [`OTHER`].
    fn reasons(self) -> &'static [&'static str] {
        match self {
            Self::Reserve | Self::DryRun | Self::Decide | Self::UsageEvent => &[
                "BUDGET_EXCEEDED",
                "BUDGET_FROZEN",
                "BUDGET_CLOSED",
                "BUDGET_NOT_FOUND",
                "OVERDRAFT_LIMIT_EXCEEDED",
                "DEBT_OUTSTANDING",
                "UNIT_MISMATCH",
                "TENANT_CLOSED",
                "TENANT_SUSPENDED",
                "LIMIT_EXCEEDED",
            ],
            Self::Commit => &[
                "BUDGET_EXCEEDED",
                "OVERDRAFT_LIMIT_EXCEEDED",
                "UNIT_MISMATCH",
                "TENANT_CLOSED",
                "NOT_FOUND",
                "RESERVATION_EXPIRED",
                "RESERVATION_FINALIZED",
            ],
            Self::Release => &[
                "TENANT_CLOSED",
                "NOT_FOUND",
                "RESERVATION_EXPIRED",
                "RESERVATION_FINALIZED",
            ],
            Self::Refund => &[
                "UNIT_MISMATCH",
                "TENANT_CLOSED",
                "TENANT_SUSPENDED",
                "NOT_FOUND",
                "RESERVATION_EXPIRED",
                "RESERVATION_FINALIZED",
                "LIMIT_EXCEEDED",
            ],
            Self::Extend => &[
                "TENANT_CLOSED",
                "NOT_FOUND",
                "RESERVATION_EXPIRED",
                "RESERVATION_FINALIZED",
                "MAX_EXTENSIONS_EXCEEDED",
            ],
        }
    }

    /// Whether its requests name a unit. Without one, a denial has none: only the record knows it.
    fn names_unit(self) -> bool {
        !matches!(self, Self::Release | Self::Extend)
    }
}

/// Why a request was denied; `None` if it failed before the decision: for its API key, its form or its idempotency key.
fn reason_of(refusal: &Refusal) -> Option<&'static str> {
    use ReservationRefusal as R;
    Some(match refusal {
        Refusal::Tenant(TenantRefusal::Closed(_)) => "TENANT_CLOSED",
        Refusal::Tenant(TenantRefusal::Suspended(_)) => "TENANT_SUSPENDED",
        Refusal::Stock(_) => "LIMIT_EXCEEDED",
        Refusal::Reservation(refusal) => match refusal {
            R::NotFound(_) => "NOT_FOUND",
            R::OfOtherTenant => return None,
            R::Expired(_) => "RESERVATION_EXPIRED",
            R::Finalized { .. } => "RESERVATION_FINALIZED",
            R::NotCharged(_) => "INVALID_REQUEST",
            R::RefundTooLarge { .. } => "LIMIT_EXCEEDED",
            R::TooManyExtensions(_) => "MAX_EXTENSIONS_EXCEEDED",
            R::RateLimited { .. } | R::StoredTooMuch { .. } => "LIMIT_EXCEEDED",
            R::UnitMismatch { .. } => "UNIT_MISMATCH",
            R::BudgetNotFound(_) => "BUDGET_NOT_FOUND",
            R::Denied { denial, .. } => denial.as_str(),
            R::OverageRejected { .. } => "BUDGET_EXCEEDED",
        },
        _ => return None,
    })
}

/// The decision of a denial.
const DENY: &str = "DENY";

/// The outcome of a refused commit, besides those of [`Overage`].
const REFUSED: &str = "refused";

metrics! {
    /// Metrics of the runtime plane.
    pub(super) struct LedgerMetrics {
        /// Decisions by operation, outcome, reason of a denial and unit; replays are not counted again
        pub decisions: IntCounterVec["operation", "decision", "reason", "unit"] = "budget_decisions_total",
        /// Commits by overage policy and how they compare with their hold
        pub commits: IntCounterVec["overage_policy", "outcome"] = "budget_commits_total",
        /// Reservations that requests expired, since they lacked funds
        pub expired: IntCounter = "budget_request_sweep_expired_total",
    }
}

impl Default for LedgerMetrics {
    /// [`Ledger::register`](super::Ledger::register) adds them to the registry of the process.
    fn default() -> Self {
        let metrics = Self::register(&Registry::new()).expect("their names differ");
        for labels in all_labels() {
            metrics.decisions.with_label_values(&labels);
        }
        for policy in OveragePolicy::ALL.iter() {
            for outcome in Overage::ALL.iter().map(|it| it.as_str()).chain([REFUSED]) {
                let labels = [policy.as_str(), outcome];
                metrics.commits.with_label_values(&labels);
            }
        }
        metrics
    }
}

/// The labels of every series of `budget_decisions_total`.
fn all_labels() -> impl Iterator<Item = [&'static str; 4]> {
    DecidedBy::ALL.iter().copied().flat_map(|by| {
        let units = || Unit::ALL.iter().map(|unit| unit.as_str());
        let allowed = by.allowing().iter();
        let allowed = allowed.flat_map(move |it| units().map(move |unit| (it.as_str(), "", unit)));
        let denied = by.reasons().iter().flat_map(move |reason| {
            let named = units().filter(move |_| by.names_unit());
            let unnamed = (!by.names_unit()).then_some("");
            named.chain(unnamed).map(move |unit| (DENY, *reason, unit))
        });
        let all = allowed.chain(denied).chain([(DENY, OTHER, "")]);
        all.map(move |(decision, reason, unit)| [by.as_str(), decision, reason, unit])
    })
}

impl LedgerMetrics {
    /// Counts what was allowed.
    pub(super) fn allowed(&self, by: DecidedBy, decision: Decision, unit: Unit) {
        self.count(by, decision.as_str(), "", Some(unit));
    }

    /// Counts a denial that is no error.
    pub(super) fn denied(&self, by: DecidedBy, denial: Denial, unit: Unit) {
        self.count(by, DENY, denial.as_str(), Some(unit));
    }

    /// Counts a refusal, if something was decided.
    pub(super) fn refused(&self, by: DecidedBy, unit: Option<Unit>, error: &StoreError) {
        if let Some(reason) = error.refusal().and_then(reason_of) {
            self.count(by, DENY, reason, unit);
        }
        match (by, error.refusal()) {
            (
                DecidedBy::Commit,
                Some(Refusal::Reservation(ReservationRefusal::OverageRejected { .. })),
            ) => self.commit(OveragePolicy::Reject, REFUSED),
            // No other policy denies a commit for lack of funds.
            (DecidedBy::Commit, Some(Refusal::Reservation(ReservationRefusal::Denied { .. }))) => {
                self.commit(OveragePolicy::AllowWithOverdraft, REFUSED)
            }
            _ => {}
        }
    }

    /// Counts a commit that was made.
    pub(super) fn committed(&self, policy: OveragePolicy, overage: Overage, unit: Unit) {
        self.allowed(DecidedBy::Commit, Decision::Allow, unit);
        self.commit(policy, overage.as_str());
    }

    /// Counts reservations that a request expired.
    pub(super) fn expired(&self, count: i64) {
        self.expired.inc_by(count.unsigned_abs());
    }

    fn commit(&self, policy: OveragePolicy, outcome: &str) {
        let commits = &self.commits;
        commits.with_label_values(&[policy.as_str(), outcome]).inc();
    }

    fn count(&self, by: DecidedBy, decision: &str, reason: &str, unit: Option<Unit>) {
        let unit = unit.map_or("", Unit::as_str);
        let (reason, unit) = match reason.is_empty() || by.reasons().contains(&reason) {
            true => (reason, unit),
            false => (OTHER, ""),
        };
        let labels = [by.as_str(), decision, reason, unit];
        self.decisions.with_label_values(&labels).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_of_decisions_are_few_and_differ() {
        let metrics = LedgerMetrics::default();
        let [decisions, commits] = [&metrics.decisions, &metrics.commits].map(|vector| {
            let families = prometheus::core::Collector::collect(vector);
            families[0].get_metric().len()
        });
        assert_eq!(decisions, all_labels().count());
        assert!(decisions <= 280, "{decisions} series");
        assert_eq!(commits, 15);
    }

    #[test]
    fn outcomes_without_a_series_are_counted_as_other() {
        let metrics = LedgerMetrics::default();
        metrics.denied(DecidedBy::Commit, Denial::BudgetFrozen, Unit::Tokens);
        let labels = [DecidedBy::Commit.as_str(), DENY, OTHER, ""];
        assert_eq!(metrics.decisions.with_label_values(&labels).get(), 1);
    }
}
