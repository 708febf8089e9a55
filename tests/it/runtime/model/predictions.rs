//! What the model says that a request responds.

use budget_authority::domain::policy::OveragePolicy;

use super::draw::Step;
use super::pure::{Model, Outcome};
use super::requests::Request;
use super::sides::subject;

impl Request<'_> {
    /// What the model says that it responds; the model then has its effects.
    pub fn expected(&self, model: &mut Model) -> Outcome {
        let (key, payload) = (format!("key-{}", self.key_number()), &self.payload);
        if let Some((index, _)) = self.about {
            return match self.step {
                Step::Commit { actual, .. } => {
                    model.commit(index, self.unit, actual.into(), &key, payload)
                }
                Step::Release { .. } => model.release(index, &key, payload),
                _ => model.extend(index, &key),
            };
        }
        let operation = match self.step {
            Step::Reserve { .. } => "reserve",
            Step::Decide { .. } => "decide",
            _ => "post",
        };
        let entry = (self.tenant, operation, key);
        match model.answered.get(&entry) {
            Some((first, stored)) if first == payload => return stored.clone(),
            Some(_) => return Outcome::Refused("IdempotencyMismatch"),
            None => {}
        }
        let expected = self.decided(model);
        let is_hold = matches!(self.step, Step::Reserve { dry: false, .. });
        let is_charge = matches!(self.step, Step::Post { .. });
        let is_kept = match expected {
            Outcome::Done { .. } | Outcome::Extended => true,
            Outcome::Deny(_) => !(is_hold || is_charge),
            Outcome::Refused(_) => false,
        };
        if is_kept {
            let named = (entry.0, entry.2.clone());
            if is_hold {
                model.reservation_of.insert(named, model.held.len() - 1);
            } else if is_charge {
                model.event_of.insert(named, model.held.len() - 1);
            }
            let kept = (payload.clone(), expected.clone());
            model.answered.insert(entry, kept);
        }
        expected
    }

    /// The model after each of the budgets that templates make for the request, which is not done yet.
    pub fn creations(&self, model: &Model) -> Vec<Model> {
        let (Step::Reserve { place, .. } | Step::Post { place, .. }) = self.step else {
            return Vec::new();
        };
        let path = subject(self.fixture, self.tenant, place).1;
        let mut done = model.clone();
        self.expected(&mut done);
        let count = done.ledgers.len() - model.ledgers.len();
        let after = |most| {
            let mut created = model.clone();
            created.create_unseen((self.tenant, &path, self.unit), most);
            created
        };
        (1..=count).map(after).collect()
    }

    /// The same for a new idempotency key.
    fn decided(&self, model: &mut Model) -> Outcome {
        let (tenant, unit) = (self.tenant, self.unit);
        match self.step {
            Step::Reserve {
                place,
                amount,
                policy,
                dry,
                ..
            } => {
                let path = subject(self.fixture, tenant, place).1;
                let policy = OveragePolicy::ALL.get(policy).copied();
                match dry {
                    true => model.decide(tenant, &path, unit, amount.into()),
                    false => model.reserve(tenant, &path, unit, amount.into(), policy),
                }
            }
            Step::Decide { place, amount, .. } => {
                let path = subject(self.fixture, tenant, place).1;
                match model.decide(tenant, &path, unit, amount.into()) {
                    Outcome::Done { .. } => Outcome::Extended,
                    other => other,
                }
            }
            Step::Post {
                place,
                actual,
                policy,
                ..
            } => {
                let path = subject(self.fixture, tenant, place).1;
                let policy = OveragePolicy::ALL.get(policy).copied();
                model.post(tenant, &path, unit, actual.into(), policy)
            }
            ref other => panic!("no new key: {other:?}"),
        }
    }
}
