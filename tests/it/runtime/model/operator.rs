//! Operations of operators on ledgers and tenants, in plain arithmetic.

use std::collections::BTreeMap;

use budget_authority::domain::reservation::Status;

use super::draw::Overage;
use super::pure::{Model, Name, Outcome};

impl Model {
    /// Sets overdraft limit and overage policy, and recomputes the flag.
    pub fn change(
        &mut self,
        name: &Name,
        limit: Option<i128>,
        overage: Option<Overage>,
    ) -> Outcome {
        if let Some(refused) = self.unchangeable(name) {
            return refused;
        }
        self.turn(std::slice::from_ref(name));
        match overage {
            Some(Some(policy)) => drop(self.overages.insert(name.clone(), policy)),
            Some(None) => drop(self.overages.remove(name)),
            None => {}
        }
        let ledger = self.ledgers.get_mut(name).expect("a ledger of the model");
        ledger.limit = limit.unwrap_or(ledger.limit);
        ledger.over = ledger.debt > ledger.limit;
        if !ledger.over {
            self.charged_over.remove(name);
        }
        Outcome::Extended
    }

    /// Changes the settings of a tenant, and whether it is suspended.
    pub fn change_tenant(
        &mut self,
        tenant: usize,
        suspended: bool,
        overage: Overage,
        extensions: i64,
    ) {
        let (known, _) = self.settings.get(&tenant).copied().unwrap_or((None, 0));
        // Absent members stay.
        self.settings
            .insert(tenant, (overage.or(known), extensions));
        match suspended {
            true => self.suspended.insert(tenant),
            false => self.suspended.remove(&tenant),
        };
    }

    /// Freezes or unfreezes a ledger.
    pub fn freeze(&mut self, name: &Name, frozen: bool) -> Outcome {
        if let Some(refused) = self.unchangeable(name) {
            return refused;
        }
        let changed = match frozen {
            true => self.frozen.insert(name.clone()),
            false => self.frozen.remove(name),
        };
        match (changed, frozen) {
            (true, _) => Outcome::Extended,
            (false, true) => Outcome::Refused("AlreadyFrozen"),
            (false, false) => Outcome::Refused("NotFrozen"),
        }
    }

    /// Expires the dead holds of a tenant.
    pub fn sweep(&mut self, tenant: usize) {
        let mut before = BTreeMap::new();
        for index in 0..self.held.len() {
            let held = self.held[index].clone();
            if held.tenant == tenant && held.status == Status::Active && held.dead {
                for name in &held.names {
                    before.entry(name.clone()).or_insert(self.ledgers[name]);
                    self.ledger(name).reserved -= held.estimate;
                }
                self.held[index].status = Status::Expired;
            }
        }
        let (names, before): (Vec<_>, Vec<_>) = before.into_iter().unzip();
        self.moved(&names, &before);
    }

    /// Ends all that a tenant owns: what is held returns, and nothing turns any more.
    pub fn close(&mut self, tenant: usize) {
        self.sweep(tenant);
        self.closed.insert(tenant);
        self.plans.retain(|name, _| name.0 != tenant);
        self.suspended.remove(&tenant);
        for held in self.held.iter_mut().filter(|held| held.tenant == tenant) {
            if held.status == Status::Active {
                held.status = Status::Released;
                for name in &held.names {
                    let ledger = self.ledgers.get_mut(name).expect("a ledger of the model");
                    ledger.reserved -= held.estimate;
                }
            }
        }
    }

    /// Why nothing of the ledger may be changed.
    pub fn unchangeable(&self, name: &Name) -> Option<Outcome> {
        if self.closed.contains(&name.0) {
            return Some(Outcome::Refused("TenantClosed"));
        }
        let known = self.ledgers.contains_key(name);
        (!known).then_some(Outcome::Refused("BudgetNotFound"))
    }
}
