//! What operators do to ledgers and tenants, in plain arithmetic.

use budget_authority::domain::reservation::Status;

use super::pure::{Model, Name, Said};

impl Model {
    /// Sets how much debt is allowed, and judges the flag anew.
    pub fn limit(&mut self, name: &Name, limit: i128) -> Said {
        if let Some(refused) = self.unchangeable(name) {
            return refused;
        }
        let book = self.books.get_mut(name).expect("a ledger of the model");
        book.limit = limit;
        book.over = book.debt > limit;
        Said::Extended
    }

    /// Freezes a ledger, or ends that.
    pub fn freeze(&mut self, name: &Name, frozen: bool) -> Said {
        if let Some(refused) = self.unchangeable(name) {
            return refused;
        }
        let changed = match frozen {
            true => self.frozen.insert(name.clone()),
            false => self.frozen.remove(name),
        };
        match (changed, frozen) {
            (true, _) => Said::Extended,
            (false, true) => Said::Refused("AlreadyFrozen"),
            (false, false) => Said::Refused("NotFrozen"),
        }
    }

    /// Expires the dead holds of a tenant.
    pub fn sweep(&mut self, tenant: usize) {
        for index in 0..self.held.len() {
            let held = self.held[index].clone();
            if held.tenant == tenant && held.status == Status::Active && held.dead {
                for name in &held.names {
                    self.book(name).reserved -= held.estimate;
                }
                self.held[index].status = Status::Expired;
            }
        }
    }

    /// Ends all that a tenant owns: what is held returns.
    pub fn close(&mut self, tenant: usize) {
        self.sweep(tenant);
        self.closed.insert(tenant);
        for held in self.held.iter_mut().filter(|held| held.tenant == tenant) {
            if held.status == Status::Active {
                held.status = Status::Released;
                for name in &held.names {
                    let book = self.books.get_mut(name).expect("a ledger of the model");
                    book.reserved -= held.estimate;
                }
            }
        }
    }

    /// Why nothing of the ledger may be changed.
    fn unchangeable(&self, name: &Name) -> Option<Said> {
        if self.closed.contains(&name.0) {
            return Some(Said::Refused("TenantClosed"));
        }
        let known = self.books.contains_key(name);
        (!known).then_some(Said::Refused("BudgetNotFound"))
    }
}
