//! Budgets that templates of policies make, in plain arithmetic.

use budget_authority::domain::amount::Unit;

use super::policies::{PATTERNS, matches};
use super::pure::{Model, ModelLedger, Name, Outcome};
use super::sides::enclosing;

/// The unit of all templates.
const UNIT: Unit = Unit::Tokens;

impl Model {
    /// Judges a request with the budgets that templates would make. They stay where it is to create them, and is done.
    pub fn with_templates(
        &mut self,
        (tenant, path, unit): (usize, &str, Unit),
        creates: bool,
        judge: impl FnOnce(&mut Self) -> Outcome,
    ) -> Outcome {
        let unseen = self.unseen(tenant, path, unit);
        for (name, allocated) in &unseen {
            let ledger = ModelLedger {
                allocated: *allocated,
                ..ModelLedger::default()
            };
            self.ledgers.insert(name.clone(), ledger);
        }
        let mut outcome = judge(self);
        if creates && matches!(outcome, Outcome::Done { .. }) {
            return outcome;
        }
        for (name, _) in &unseen {
            self.ledgers.remove(name);
        }
        if let Outcome::Done { ledgers, .. } = &mut outcome {
            ledgers.retain(|(scope, _)| unseen.iter().all(|(name, _)| name.1 != *scope));
        }
        outcome
    }

    /// The scopes of a path that have a template and no ledger, and what each would be allocated.
    fn unseen(&self, tenant: usize, path: &str, unit: Unit) -> Vec<(Name, i128)> {
        let names = enclosing(path)
            .into_iter()
            .map(|scope| (tenant, scope, unit));
        let unseen = names.filter(|name| unit == UNIT && !self.ledgers.contains_key(name));
        let with_template = |name: Name| {
            let of_tenant = self.policies.iter().filter(|((of, _), _)| *of == tenant);
            let exact = of_tenant.filter(|(_, (rule, _))| {
                let pattern = PATTERNS[rule.pattern];
                rule.active && !pattern.ends_with("/*") && matches(pattern, &name.1)
            });
            let ranked = exact.filter_map(|(_, (rule, made))| {
                let segments = PATTERNS[rule.pattern].matches('/').count();
                let id = std::cmp::Reverse(made.policy_id.as_str());
                let rank = (rule.priority, segments, made.created_at, id);
                Some((rank, rule.template?))
            });
            let (_, allocated) = ranked.max_by_key(|(rank, _)| *rank)?;
            Some((name, allocated.into()))
        };
        unseen.filter_map(with_template).collect()
    }
}
