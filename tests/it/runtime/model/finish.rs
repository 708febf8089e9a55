//! The end of reservations, in plain arithmetic.

use budget_authority::domain::amount::Unit;
use budget_authority::domain::policy::OveragePolicy;
use budget_authority::domain::reservation::Status;

use super::pure::{Model, Outcome};

impl Model {
    pub fn commit(
        &mut self,
        index: usize,
        unit: Unit,
        actual: i128,
        key: &str,
        hash: &str,
    ) -> Outcome {
        let held = self.held[index].clone();
        if held.status == Status::Committed && held.finish.as_ref().is_some_and(|f| f.0 == key) {
            return match held.finish.is_some_and(|f| f.1 == hash) {
                true => self.answered[&(held.tenant, "commit", format!("{index} {key}"))]
                    .1
                    .clone(),
                false => Outcome::Refused("IdempotencyMismatch"),
            };
        }
        if self.closed.contains(&held.tenant) {
            return Outcome::Refused("TenantClosed");
        }
        match held.status {
            Status::Expired => return Outcome::Refused("Expired"),
            Status::Committed | Status::Released => return Outcome::Refused("Finalized"),
            Status::Active if held.dead => return Outcome::Refused("Expired"),
            Status::Active => {}
        }
        if unit != held.unit {
            return Outcome::Refused("UnitMismatch");
        }
        self.turn(&held.names);
        let overage = actual - held.estimate;
        let beyond = if overage > 0 {
            if held.policy == OveragePolicy::Reject {
                return Outcome::Refused("OverageRejected");
            }
            let enforcing = self.enforcing(&held.names);
            let mut enforcing = enforcing.iter();
            if enforcing.any(|name| self.ledgers[name].remaining() < overage) {
                self.sweep(held.tenant);
            }
            match self.charge(&held.names, held.estimate, overage, held.policy) {
                Ok(beyond) => beyond,
                Err(reason) => return Outcome::Deny(reason),
            }
        } else {
            let before = self.ledgers_of(&held.names);
            for name in &held.names {
                let ledger = self.ledger(name);
                ledger.reserved -= held.estimate;
                ledger.spent += actual;
            }
            self.moved(&held.names, &before);
            self.count(&held.names, actual);
            overage
        };
        let response = Outcome::Done {
            charged: held.estimate + beyond,
            ledgers: self.snapshot(&held.names),
        };
        self.held[index].status = Status::Committed;
        self.has_charged(index, held.estimate + beyond);
        self.held[index].finish = Some((key.to_owned(), hash.to_owned()));
        self.answered.insert(
            (held.tenant, "commit", format!("{index} {key}")),
            (hash.to_owned(), response.clone()),
        );
        response
    }

    pub fn release(&mut self, index: usize, key: &str, hash: &str) -> Outcome {
        let held = self.held[index].clone();
        if held.status == Status::Released && held.finish.as_ref().is_some_and(|f| f.0 == key) {
            return match held.finish.is_some_and(|f| f.1 == hash) {
                true => self.answered[&(held.tenant, "release", format!("{index} {key}"))]
                    .1
                    .clone(),
                false => Outcome::Refused("IdempotencyMismatch"),
            };
        }
        if self.closed.contains(&held.tenant) {
            return Outcome::Refused("TenantClosed");
        }
        match held.status {
            Status::Expired => return Outcome::Refused("Expired"),
            Status::Committed | Status::Released => return Outcome::Refused("Finalized"),
            Status::Active if held.dead => return Outcome::Refused("Expired"),
            Status::Active => {}
        }
        self.turn(&held.names);
        let before = self.ledgers_of(&held.names);
        for name in &held.names {
            self.ledger(name).reserved -= held.estimate;
        }
        self.moved(&held.names, &before);
        let response = Outcome::Done {
            charged: held.estimate,
            ledgers: self.snapshot(&held.names),
        };
        self.held[index].status = Status::Released;
        self.held[index].finish = Some((key.to_owned(), hash.to_owned()));
        self.answered.insert(
            (held.tenant, "release", format!("{index} {key}")),
            (hash.to_owned(), response.clone()),
        );
        response
    }

    pub fn extend(&mut self, index: usize, key: &str) -> Outcome {
        let held = self.held[index].clone();
        if held.extensions.iter().any(|seen| seen == key) {
            return Outcome::Extended;
        }
        if self.closed.contains(&held.tenant) {
            return Outcome::Refused("TenantClosed");
        }
        match held.status {
            Status::Expired => return Outcome::Refused("Expired"),
            Status::Committed | Status::Released => return Outcome::Refused("Finalized"),
            Status::Active if held.dead => return Outcome::Refused("Expired"),
            Status::Active => {}
        }
        if held.extensions.len() >= held.extensions_max {
            return Outcome::Refused("TooManyExtensions");
        }
        self.turn(&held.names);
        self.held[index].extensions.push(key.to_owned());
        Outcome::Extended
    }
}
