//! Refunds of reservations and usage events, on both sides.

use std::collections::HashMap;

use budget_authority::domain::amount::Unit;
use budget_authority::domain::policy::OveragePolicy;
use budget_authority::domain::reservation::{RefundRequest, Status};
use budget_authority::ledger::Charge;

use super::pure::{Held, Model, Name, Outcome};
use super::sides::{amount_of, charged, hashed, key, pick, pick_event, refused};
use crate::harness::admin_fixture::admin_key;
use crate::harness::ledger_fixture::LedgerFixture;

/// What a reservation or usage event has charged.
#[derive(Debug, Clone)]
pub struct Charged {
    amount: i128,
    /// When, by the clock of [`Periods`].
    at: usize,
    epochs: Vec<u32>,
    refunded: i128,
    /// Of each refund its key, its amount, and its reply.
    refunds: Vec<(String, i128, Outcome)>,
}

impl Charged {
    /// What was charged, and what was given back.
    pub fn amounts(&self) -> (i128, i128) {
        (self.amount, self.refunded)
    }
}

/// What tells whether a ledger is still in the period of a charge, and a limit in its window.
#[derive(Debug, Clone, Default)]
pub struct Periods {
    /// How often each ledger has begun anew.
    epochs: HashMap<Name, u32>,
    /// Moves when limits are set.
    clock: usize,
    /// Since when each limit counts.
    counted_from: HashMap<(Name, usize), usize>,
}

impl Periods {
    /// The ledger has begun anew.
    pub fn begin(&mut self, name: &Name) {
        *self.epochs.entry(name.clone()).or_default() += 1;
    }

    /// The ledger has this number of limits; those beyond the ones that it had count from now on.
    pub fn set_limits(&mut self, name: &Name, before: usize, now: usize) {
        self.clock += 1;
        for at in before..now {
            self.counted_from.insert((name.clone(), at), self.clock);
        }
    }

    /// The present windows have begun before the history did.
    pub fn pass_windows(&mut self, name: &Name) {
        self.counted_from.retain(|(of, _), _| of != name);
    }
}

/// The reply of the service, and that of the model; none where there is no reservation.
pub async fn take(
    fixture: &LedgerFixture,
    model: &mut Model,
    of_event: bool,
    (which, amount, number): (usize, i64, usize),
) -> Option<(Outcome, Outcome)> {
    let (index, tenant, charge) = match of_event {
        true => {
            let (index, tenant, id) = pick_event(fixture, model, which).await?;
            (index, tenant, Charge::UsageEvent(id))
        }
        false => {
            let (index, tenant, id) = pick(fixture, model, which).await?;
            (index, tenant, Charge::Reservation(id))
        }
    };
    let request = RefundRequest {
        idempotency_key: key(number),
        amount: amount_of(model.held[index].unit, amount),
        reason: "wrong".to_owned(),
        metadata: None,
    };
    let request = hashed(request, &format!("refund {amount}"));
    let cause = fixture.cause(tenant);
    let ledger = &fixture.ledger;
    let refund = ledger.refund(&admin_key(), &charge, &request, &cause).await;
    let found = match refund {
        Ok(refunded) => charged(refunded.refunded.value(), &refunded.balances),
        Err(error) => refused(error),
    };
    let expected = model.refund(index, &format!("key-{number}"), amount.into());
    Some((found, expected))
}

impl Model {
    /// Keeps what a usage event has charged.
    pub fn hold_charged(
        &mut self,
        (tenant, path, unit): (usize, &str, Unit),
        names: &[Name],
        policy: OveragePolicy,
        charged: i128,
    ) {
        self.held.push(Held {
            tenant,
            path: path.to_owned(),
            names: names.to_vec(),
            unit,
            estimate: 0,
            policy,
            status: Status::Committed,
            dead: false,
            finish: None,
            charged: None,
            extensions: Vec::new(),
            extensions_max: 0,
        });
        self.has_charged(self.held.len() - 1, charged);
    }

    /// A reservation or usage event has charged an amount.
    pub fn has_charged(&mut self, index: usize, amount: i128) {
        let epochs = self.held[index].names.iter();
        let epochs = epochs.map(|name| self.periods.epochs.get(name).copied().unwrap_or(0));
        self.held[index].charged = Some(Charged {
            amount,
            at: self.periods.clock,
            epochs: epochs.collect(),
            refunded: 0,
            refunds: Vec::new(),
        });
    }

    fn refund(&mut self, index: usize, key: &str, amount: i128) -> Outcome {
        let held = self.held[index].clone();
        let refunds = held.charged.iter().flat_map(|charged| &charged.refunds);
        if let Some((_, first, reply)) = { refunds }.find(|(known, ..)| known == key) {
            return match *first == amount {
                true => reply.clone(),
                false => Outcome::Refused("IdempotencyMismatch"),
            };
        }
        if self.closed.contains(&held.tenant) {
            return Outcome::Refused("TenantClosed");
        }
        let mut charged = match (held.status, held.charged) {
            (Status::Active, _) if held.dead => return Outcome::Refused("Expired"),
            (Status::Active, _) => return Outcome::Refused("NotCharged"),
            (Status::Expired, _) => return Outcome::Refused("Expired"),
            (_, Some(charged)) => charged,
            (_, None) => return Outcome::Refused("Finalized"),
        };
        if charged.refunded + amount > charged.amount {
            return Outcome::Refused("RefundTooLarge");
        }
        self.turn(&held.names);
        let epochs = held.names.into_iter().zip(&charged.epochs);
        let is_same =
            |(name, epoch): &(Name, &u32)| self.periods.epochs.get(name).unwrap_or(&0) == *epoch;
        let names: Vec<Name> = epochs.filter(is_same).map(|(name, _)| name).collect();
        let before = self.ledgers_of(&names);
        for name in &names {
            let ledger = self.ledger(name);
            let owed = ledger.debt.min(amount);
            ledger.debt -= owed;
            ledger.spent -= (amount - owed).min(ledger.spent);
            ledger.over = ledger.debt > ledger.limit;
            if !ledger.over {
                self.charged_over.remove(name);
            }
            let windows = self
                .plans
                .get_mut(name)
                .map_or(&mut [][..], |plan| &mut plan.windows[..]);
            for (at, (_, used)) in windows.iter_mut().enumerate() {
                let from = self.periods.counted_from.get(&(name.clone(), at));
                if from.copied().unwrap_or(0) <= charged.at {
                    *used = (*used - amount).max(0);
                }
            }
        }
        self.moved(&names, &before);
        charged.refunded += amount;
        let reply = Outcome::Done {
            charged: charged.refunded,
            ledgers: self.snapshot(&names),
        };
        let refund = (key.to_owned(), amount, reply.clone());
        charged.refunds.push(refund);
        self.held[index].charged = Some(charged);
        reply
    }
}
