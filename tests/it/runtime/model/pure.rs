//! The ledger in plain arithmetic: no store, no clock, no concurrency. It predicts every reply.

use std::collections::{HashMap, HashSet};

use super::alerts::AlertState;
use super::sides::enclosing;
use budget_authority::domain::amount::Unit;
use budget_authority::domain::policy::OveragePolicy;
use budget_authority::domain::reservation::Status;

use crate::harness::ledger_fixture::LedgerFixture;

/// One ledger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelLedger {
    pub allocated: i128,
    pub spent: i128,
    pub reserved: i128,
    pub debt: i128,
    pub limit: i128,
    pub over: bool,
}

impl ModelLedger {
    pub fn remaining(&self) -> i128 {
        self.allocated - self.spent - self.reserved - self.debt
    }
}

/// A ledger's name: tenant, scope, unit.
pub type Name = (usize, String, Unit);

/// One reservation.
#[derive(Debug, Clone)]
pub struct Held {
    pub tenant: usize,
    /// The scope of the subject.
    pub path: String,
    pub names: Vec<Name>,
    pub unit: Unit,
    pub estimate: i128,
    pub policy: OveragePolicy,
    pub status: Status,
    /// Its grace has passed, and no sweep has ended it yet.
    pub dead: bool,
    pub finish: Option<(String, String)>,
    pub charged: Option<super::refund::Charged>,
    pub extensions: Vec<String>,
    pub extensions_max: usize,
}

/// The reply to a request, reduced to what the model predicts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Done {
        charged: i128,
        ledgers: Vec<(String, ModelLedger)>,
    },
    Extended,
    Deny(&'static str),
    Refused(&'static str),
}

/// All ledgers and reservations, and the reply under each idempotency key.
#[derive(Clone, Default)]
pub struct Model {
    pub ledgers: HashMap<Name, ModelLedger>,
    pub held: Vec<Held>,
    pub answered: HashMap<(usize, &'static str, String), (String, Outcome)>,
    pub reservation_of: HashMap<(usize, String), usize>,
    /// Usage events are committed reservations here.
    pub event_of: HashMap<(usize, String), usize>,
    pub policies: super::policies::Rules,
    /// Ledgers that a charge took over their limit.
    pub charged_over: HashSet<Name>,
    /// What ledgers have besides figures.
    pub plans: HashMap<Name, super::plans::Plan>,
    /// When ledgers and limits have begun anew.
    pub periods: super::refund::Periods,
    /// Ledgers that are frozen.
    pub frozen: HashSet<Name>,
    /// The overage policy of ledgers that have one.
    pub overages: HashMap<Name, OveragePolicy>,
    /// Tenants that are closed.
    pub closed: HashSet<usize>,
    /// Tenants that are suspended.
    pub suspended: HashSet<usize>,
    /// The tenants' overage policy and number of extensions.
    pub settings: HashMap<usize, (Option<OveragePolicy>, i64)>,
    /// The alert state of ledgers.
    pub announced: HashMap<Name, AlertState>,
    /// The alerts of the present step: tenant, ledger, event.
    pub alerts: Vec<(usize, String, String)>,
    /// Where the events of a tenant begin that no step has compared.
    pub seen_events: HashMap<usize, String>,
}

impl Model {
    pub fn new(_fixture: &LedgerFixture) -> Self {
        Self::default()
    }

    /// The budgeted scopes among the enclosing ones, root first.
    pub fn budgeted(&self, tenant: usize, path: &str, unit: Unit) -> Vec<Name> {
        enclosing(path)
            .into_iter()
            .map(|scope| (tenant, scope, unit))
            .filter(|name| self.ledgers.contains_key(name))
            .collect()
    }

    fn mismatch(&self, tenant: usize, path: &str) -> bool {
        enclosing(path).iter().any(|scope| {
            Unit::ALL
                .iter()
                .any(|unit| self.ledgers.contains_key(&(tenant, scope.clone(), *unit)))
        })
    }

    pub fn snapshot(&self, names: &[Name]) -> Vec<(String, ModelLedger)> {
        names
            .iter()
            .map(|name| (name.1.clone(), self.ledgers[name]))
            .collect()
    }

    /// Why an estimate cannot be held; dead holds count as returned.
    fn denial(&mut self, names: &[Name], amount: i128) -> Option<&'static str> {
        self.turn(names);
        let enforcing = self.enforcing(names);
        let ledgers: Vec<ModelLedger> = enforcing.iter().map(|name| self.ledgers[name]).collect();
        if names.iter().any(|name| self.frozen.contains(name)) {
            return Some("BUDGET_FROZEN");
        }
        if ledgers.iter().any(|ledger| ledger.over) {
            return Some("OVERDRAFT_LIMIT_EXCEEDED");
        }
        if ledgers.iter().any(|ledger| ledger.debt > 0) {
            return Some("DEBT_OUTSTANDING");
        }
        if self.lacks_room(names, amount) {
            self.sweep(names[0].0);
        }
        let observing = names.iter().filter(|name| !enforcing.contains(name));
        let beyond = observing
            .into_iter()
            .any(|name| self.is_out_of_range(name, amount));
        let short = enforcing.iter().any(|name| self.is_short(name, amount));
        (short || beyond).then_some("BUDGET_EXCEEDED")
    }

    pub fn decide(&mut self, tenant: usize, path: &str, unit: Unit, amount: i128) -> Outcome {
        self.with_templates((tenant, path, unit), false, |model| {
            model.decided(tenant, path, unit, amount)
        })
    }

    fn decided(&mut self, tenant: usize, path: &str, unit: Unit, amount: i128) -> Outcome {
        if self.closed.contains(&tenant) {
            return Outcome::Deny("TENANT_CLOSED");
        }
        if self.suspended.contains(&tenant) {
            return Outcome::Deny("TENANT_SUSPENDED");
        }
        let names = self.budgeted(tenant, path, unit);
        if names.is_empty() {
            return match self.mismatch(tenant, path) {
                true => Outcome::Refused("UnitMismatch"),
                false => Outcome::Deny("BUDGET_NOT_FOUND"),
            };
        }
        match self.denial(&names, amount) {
            Some(reason) => Outcome::Deny(reason),
            None => Outcome::Done {
                charged: 0,
                ledgers: self.snapshot(&names),
            },
        }
    }

    pub fn reserve(
        &mut self,
        tenant: usize,
        path: &str,
        unit: Unit,
        amount: i128,
        requested: Option<OveragePolicy>,
    ) -> Outcome {
        self.with_templates((tenant, path, unit), true, |model| {
            model.hold(tenant, path, unit, amount, requested)
        })
    }

    fn hold(
        &mut self,
        tenant: usize,
        path: &str,
        unit: Unit,
        amount: i128,
        requested: Option<OveragePolicy>,
    ) -> Outcome {
        if self.closed.contains(&tenant) {
            return Outcome::Refused("TenantClosed");
        }
        if self.suspended.contains(&tenant) {
            return Outcome::Refused("TenantSuspended");
        }
        let names = self.budgeted(tenant, path, unit);
        let Some(deepest) = names.last() else {
            return match self.mismatch(tenant, path) {
                true => Outcome::Refused("UnitMismatch"),
                false => Outcome::Refused("BudgetNotFound"),
            };
        };
        let (policy, extensions_max) = self.terms(path, deepest, requested);
        if let Some(reason) = self.denial(&names, amount) {
            return Outcome::Deny(reason);
        }
        let before = self.ledgers_of(&names);
        for name in &names {
            self.ledger(name).reserved += amount;
        }
        self.moved(&names, &before);
        self.held.push(Held {
            tenant,
            path: path.to_owned(),
            names: names.clone(),
            unit,
            estimate: amount,
            policy,
            status: Status::Active,
            dead: false,
            finish: None,
            charged: None,
            extensions: Vec::new(),
            extensions_max,
        });
        Outcome::Done {
            charged: 0,
            ledgers: self.snapshot(&names),
        }
    }

    /// Charges `overage` beyond `estimate` on all ledgers or on none; the amount charged beyond, or the refusal.
    pub fn charge(
        &mut self,
        names: &[Name],
        estimate: i128,
        overage: i128,
        policy: OveragePolicy,
    ) -> Result<i128, &'static str> {
        let overdraft = policy == OveragePolicy::AllowWithOverdraft;
        let before = self.ledgers_of(names);
        let enforcing = self.enforcing(names);
        let mut charge = overage;
        for name in &enforcing {
            let ledger = self.ledgers[name];
            if !(overdraft && ledger.limit > 0) && ledger.remaining() < overage {
                charge = charge.min(ledger.remaining().max(0));
            }
        }
        for name in &enforcing {
            let ledger = self.ledgers[name];
            let indebted = overdraft && ledger.limit > 0 && ledger.remaining() < charge;
            if indebted && ledger.debt + charge > ledger.limit {
                return Err("OVERDRAFT_LIMIT_EXCEEDED");
            }
        }
        for name in names.iter().filter(|name| !enforcing.contains(name)) {
            if self.is_out_of_range(name, charge) {
                return Err("BUDGET_EXCEEDED");
            }
        }
        for name in names {
            let observes = !enforcing.contains(name);
            let ledger = self.ledger(name);
            if observes {
                ledger.reserved -= estimate;
                ledger.spent += estimate + charge;
                continue;
            }
            let before = ledger.remaining();
            let funded = charge.min(before.max(0));
            let was_over = ledger.over;
            ledger.reserved -= estimate;
            ledger.spent += estimate + funded;
            ledger.debt += charge - funded;
            if overdraft && ledger.limit > 0 {
                ledger.over |= ledger.debt > ledger.limit;
            } else {
                ledger.over |= before < overage;
            }
            if ledger.over && !was_over {
                self.charged_over.insert(name.clone());
            }
        }
        self.moved(names, &before);
        self.count(names, estimate + charge);
        Ok(charge)
    }

    pub fn post(
        &mut self,
        tenant: usize,
        path: &str,
        unit: Unit,
        actual: i128,
        requested: Option<OveragePolicy>,
    ) -> Outcome {
        self.with_templates((tenant, path, unit), true, |model| {
            model.posted(tenant, path, unit, actual, requested)
        })
    }

    fn posted(
        &mut self,
        tenant: usize,
        path: &str,
        unit: Unit,
        actual: i128,
        requested: Option<OveragePolicy>,
    ) -> Outcome {
        if self.closed.contains(&tenant) {
            return Outcome::Refused("TenantClosed");
        }
        if self.suspended.contains(&tenant) {
            return Outcome::Refused("TenantSuspended");
        }
        let names = self.budgeted(tenant, path, unit);
        let Some(deepest) = names.last() else {
            return match self.mismatch(tenant, path) {
                true => Outcome::Refused("UnitMismatch"),
                false => Outcome::Refused("BudgetNotFound"),
            };
        };
        let (policy, _) = self.terms(path, deepest, requested);
        self.turn(&names);
        if names.iter().any(|name| self.frozen.contains(name)) {
            return Outcome::Refused("Inactive");
        }
        let enforcing = self.enforcing(&names);
        let rejects = policy == OveragePolicy::Reject;
        let short = |model: &Self| {
            let lacks = |name| actual > 0 && model.ledgers[name].remaining() < actual;
            let is_full = |name| rejects && model.is_full(name, actual);
            enforcing.iter().any(|name| lacks(name) || is_full(name))
        };
        if short(self) {
            self.sweep(tenant);
        }
        if rejects && short(self) {
            return Outcome::Deny("BUDGET_EXCEEDED");
        }
        let before = self.ledgers_of(&names);
        let charged = match actual {
            0 => {
                self.moved(&names, &before);
                Ok(0)
            }
            // What is charged as a whole or not at all, is so for those that observe as well.
            _ if rejects && names.iter().any(|name| self.observed_beyond(name, actual)) => {
                Err("BUDGET_EXCEEDED")
            }
            _ => self.charge(&names, 0, actual, policy),
        };
        match charged {
            Err(reason) => Outcome::Deny(reason),
            Ok(charged) => {
                self.hold_charged((tenant, path, unit), &names, policy, charged);
                Outcome::Done {
                    charged,
                    ledgers: self.snapshot(&names),
                }
            }
        }
    }

    pub fn ledger(&mut self, name: &Name) -> &mut ModelLedger {
        self.ledgers.get_mut(name).expect("a ledger of the model")
    }
}
