//! Counts decisions of the runtime plane, how commits compare with their holds, and the holds that requests expire. All series
//! exist from the start, so counting takes no memory and no label comes from a request.

use std::collections::HashMap;
use std::sync::Arc;

use prometheus::{IntCounter, IntCounterVec, Opts, Registry};

use crate::domain::amount::Unit;
use crate::domain::policy::{Overage, OveragePolicy};
use crate::domain::refusal::{Denial, Refusal, ReservationRefusal, TenantRefusal};
use crate::domain::reservation::Decision;
use crate::domain::words::words;
use crate::store::StoreError;

words! {
    /// The operation that decides; a label.
    DecidedBy {
        /// A reservation.
        Reserve = "reserve",
        /// A reservation that is only tried.
        DryRun = "dry_run",
        /// A decision.
        Decide = "decide",
        /// A commit.
        Commit = "commit",
        /// A release.
        Release = "release",
        /// An extension.
        Extend = "extend",
        /// A usage event.
        UsageEvent = "usage_event",
    }
}

words! {
    /// Why something is denied, in the words of error codes and of decisions; a label.
    Reason {
        BudgetExceeded = "BUDGET_EXCEEDED",
        BudgetFrozen = "BUDGET_FROZEN",
        BudgetClosed = "BUDGET_CLOSED",
        BudgetNotFound = "BUDGET_NOT_FOUND",
        OverdraftLimitExceeded = "OVERDRAFT_LIMIT_EXCEEDED",
        DebtOutstanding = "DEBT_OUTSTANDING",
        UnitMismatch = "UNIT_MISMATCH",
        TenantClosed = "TENANT_CLOSED",
        TenantSuspended = "TENANT_SUSPENDED",
        LimitExceeded = "LIMIT_EXCEEDED",
        NotFound = "NOT_FOUND",
        ReservationExpired = "RESERVATION_EXPIRED",
        ReservationFinalized = "RESERVATION_FINALIZED",
        MaxExtensionsExceeded = "MAX_EXTENSIONS_EXCEEDED",
        Other = "OTHER",
    }
}

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

    /// The reasons that have a series. Any other is counted as [`Reason::Other`].
    fn reasons(self) -> &'static [Reason] {
        use Reason as R;
        match self {
            Self::Reserve | Self::DryRun | Self::Decide | Self::UsageEvent => &[
                R::BudgetExceeded,
                R::BudgetFrozen,
                R::BudgetClosed,
                R::BudgetNotFound,
                R::OverdraftLimitExceeded,
                R::DebtOutstanding,
                R::UnitMismatch,
                R::TenantClosed,
                R::TenantSuspended,
                R::LimitExceeded,
            ],
            Self::Commit => &[
                R::BudgetExceeded,
                R::OverdraftLimitExceeded,
                R::UnitMismatch,
                R::TenantClosed,
                R::NotFound,
                R::ReservationExpired,
                R::ReservationFinalized,
            ],
            Self::Release => &[
                R::TenantClosed,
                R::NotFound,
                R::ReservationExpired,
                R::ReservationFinalized,
            ],
            Self::Extend => &[
                R::TenantClosed,
                R::NotFound,
                R::ReservationExpired,
                R::ReservationFinalized,
                R::MaxExtensionsExceeded,
            ],
        }
    }

    /// Whether its requests name a unit. Without one, a denial has none: only the record knows it.
    fn names_unit(self) -> bool {
        !matches!(self, Self::Release | Self::Extend)
    }
}

impl Reason {
    /// `None` if a request failed before the decision: for its API key, its form or its idempotency key.
    fn of(refusal: &Refusal) -> Option<Self> {
        use ReservationRefusal as Reservation;
        Some(match refusal {
            Refusal::Tenant(TenantRefusal::Closed(_)) => Self::TenantClosed,
            Refusal::Tenant(TenantRefusal::Suspended(_)) => Self::TenantSuspended,
            Refusal::Reservation(refusal) => match refusal {
                Reservation::NotFound(_) => Self::NotFound,
                Reservation::OfOtherTenant => return None,
                Reservation::Expired(_) => Self::ReservationExpired,
                Reservation::Finalized { .. } => Self::ReservationFinalized,
                Reservation::TooManyExtensions(_) => Self::MaxExtensionsExceeded,
                Reservation::RateLimited { .. } | Reservation::StoredTooMuch { .. } => {
                    Self::LimitExceeded
                }
                Reservation::UnitMismatch { .. } => Self::UnitMismatch,
                Reservation::BudgetNotFound(_) => Self::BudgetNotFound,
                Reservation::Denied { denial, .. } => (*denial).into(),
                Reservation::OverageRejected { .. } => Self::BudgetExceeded,
            },
            _ => return None,
        })
    }
}

impl From<Denial> for Reason {
    fn from(denial: Denial) -> Self {
        match denial {
            Denial::BudgetExceeded => Self::BudgetExceeded,
            Denial::BudgetFrozen => Self::BudgetFrozen,
            Denial::BudgetClosed => Self::BudgetClosed,
            Denial::BudgetNotFound => Self::BudgetNotFound,
            Denial::OverdraftLimitExceeded => Self::OverdraftLimitExceeded,
            Denial::DebtOutstanding => Self::DebtOutstanding,
            Denial::TenantClosed => Self::TenantClosed,
            Denial::TenantSuspended => Self::TenantSuspended,
        }
    }
}

/// The labels of a series of `budget_decisions_total`.
type Labels = (DecidedBy, Decision, Option<Reason>, Option<Unit>);

/// The outcome of a refused commit, besides those of [`Overage`].
const REFUSED: &str = "refused";

/// Metrics of the runtime plane. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LedgerMetrics {
    counters: Arc<Counters>,
    /// Decisions without evidence, while it is on.
    pub(super) skipped: Option<IntCounterVec>,
}

#[derive(Debug)]
struct Counters {
    decisions: HashMap<Labels, IntCounter>,
    commits: HashMap<(OveragePolicy, Option<Overage>), IntCounter>,
    expired: IntCounter,
    vectors: [IntCounterVec; 2],
}

impl Default for LedgerMetrics {
    fn default() -> Self {
        let vector = |name: &str, help: &str, labels: &[&str]| {
            IntCounterVec::new(Opts::new(name, help), labels).expect("a name and labels")
        };
        let decisions = vector(
            "budget_decisions_total",
            "Decisions by operation, outcome, reason of a denial and unit; replays are not counted again",
            &["operation", "decision", "reason", "unit"],
        );
        let commits = vector(
            "budget_commits_total",
            "Commits by overage policy and how they compare with their hold",
            &["overage_policy", "outcome"],
        );
        let expired = IntCounter::new(
            "budget_request_sweep_expired_total",
            "Reservations that requests expired, since they lacked funds",
        );
        let counter = |labels: Labels| {
            let (by, decision, reason, unit) = labels;
            let reason = reason.map_or("", Reason::as_str);
            let unit = unit.map_or("", Unit::as_str);
            let values = [by.as_str(), decision.as_str(), reason, unit];
            (labels, decisions.with_label_values(&values))
        };
        let commit = |(policy, overage): (OveragePolicy, Option<Overage>)| {
            let outcome = overage.map_or(REFUSED, Overage::as_str);
            let counter = commits.with_label_values(&[policy.as_str(), outcome]);
            ((policy, overage), counter)
        };
        let outcomes = || Overage::ALL.iter().copied().map(Some).chain([None]);
        let policies = OveragePolicy::ALL.iter().copied();
        let commit_labels = policies.flat_map(|policy| outcomes().map(move |it| (policy, it)));
        Self {
            counters: Arc::new(Counters {
                decisions: all_labels().map(counter).collect(),
                commits: commit_labels.map(commit).collect(),
                expired: expired.expect("a name"),
                vectors: [decisions, commits],
            }),
            skipped: None,
        }
    }
}

/// Every series of `budget_decisions_total`.
fn all_labels() -> impl Iterator<Item = Labels> {
    DecidedBy::ALL.iter().copied().flat_map(|by| {
        let units = || Unit::ALL.iter().copied().map(Some);
        let allowed = by.allowing().iter();
        let allowed = allowed.flat_map(move |it| units().map(move |unit| (by, *it, None, unit)));
        let denied = by.reasons().iter().flat_map(move |reason| {
            let named = units().filter(move |_| by.names_unit());
            let unnamed = (!by.names_unit()).then_some(None);
            named
                .chain(unnamed)
                .map(move |unit| (by, Decision::Deny, Some(*reason), unit))
        });
        allowed.chain(denied).chain([other(by)])
    })
}

fn other(by: DecidedBy) -> Labels {
    (by, Decision::Deny, Some(Reason::Other), None)
}

impl LedgerMetrics {
    /// Adds them to a registry.
    ///
    /// # Errors
    /// When a name is taken.
    pub fn register(&self, registry: &Registry) -> prometheus::Result<()> {
        for vector in &self.counters.vectors {
            registry.register(Box::new(vector.clone()))?;
        }
        registry.register(Box::new(self.counters.expired.clone()))?;
        match &self.skipped {
            Some(skipped) => registry.register(Box::new(skipped.clone())),
            None => Ok(()),
        }
    }

    /// Counts what was allowed.
    pub(super) fn allowed(&self, by: DecidedBy, decision: Decision, unit: Unit) {
        self.count((by, decision, None, Some(unit)));
    }

    /// Counts a denial that is no error.
    pub(super) fn denied(&self, by: DecidedBy, denial: Denial, unit: Unit) {
        self.count((by, Decision::Deny, Some(denial.into()), Some(unit)));
    }

    /// Counts a refusal, if something was decided.
    pub(super) fn refused(&self, by: DecidedBy, unit: Option<Unit>, error: &StoreError) {
        if let Some(reason) = error.refusal().and_then(Reason::of) {
            self.count((by, Decision::Deny, Some(reason), unit));
        }
    }

    /// Counts a commit that was made.
    pub(super) fn committed(&self, policy: OveragePolicy, overage: Overage, unit: Unit) {
        self.allowed(DecidedBy::Commit, Decision::Allow, unit);
        self.commit(policy, Some(overage));
    }

    /// Counts a commit that was refused.
    pub(super) fn commit_refused(&self, unit: Unit, error: &StoreError) {
        self.refused(DecidedBy::Commit, Some(unit), error);
        match error.refusal() {
            Some(Refusal::Reservation(ReservationRefusal::OverageRejected { .. })) => {
                self.commit(OveragePolicy::Reject, None);
            }
            // No other policy denies a commit for lack of funds.
            Some(Refusal::Reservation(ReservationRefusal::Denied { .. })) => {
                self.commit(OveragePolicy::AllowWithOverdraft, None);
            }
            _ => {}
        }
    }

    /// Counts reservations that a request expired.
    pub(super) fn expired(&self, count: i64) {
        self.counters.expired.inc_by(count.unsigned_abs());
    }

    fn commit(&self, policy: OveragePolicy, overage: Option<Overage>) {
        if let Some(counter) = self.counters.commits.get(&(policy, overage)) {
            counter.inc();
        }
    }

    fn count(&self, labels: Labels) {
        let counters = &self.counters.decisions;
        let counter = counters
            .get(&labels)
            .or_else(|| counters.get(&other(labels.0)));
        if let Some(counter) = counter {
            counter.inc();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_of_decisions_are_few_and_differ() {
        let metrics = LedgerMetrics::default();
        let [decisions, commits] = metrics.counters.vectors.each_ref().map(|vector| {
            let families = prometheus::core::Collector::collect(vector);
            families[0].get_metric().len()
        });
        assert_eq!(decisions, all_labels().count());
        assert!(decisions <= 260, "{decisions} series");
        assert_eq!(commits, 15);
    }

    #[test]
    fn outcomes_without_a_series_are_counted_as_other() {
        let metrics = LedgerMetrics::default();
        metrics.denied(DecidedBy::Commit, Denial::BudgetFrozen, Unit::Tokens);
        let counter = &metrics.counters.decisions[&other(DecidedBy::Commit)];
        assert_eq!(counter.get(), 1);
    }
}
