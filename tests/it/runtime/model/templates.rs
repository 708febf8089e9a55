//! Budgets that templates of policies make, in plain arithmetic.

use budget_authority::domain::amount::Unit;
use budget_authority::domain::fields::Read as _;
use budget_authority::domain::json::Json;
use budget_authority::domain::policy::BudgetTemplate;
use serde_json::json;

use super::draw::Overage;
use super::plan_steps::WINDOWS;
use super::plans::Plan;
use super::policies::{PATTERNS, matches};
use super::pure::{Model, ModelLedger, Name, Outcome};
use super::sides::enclosing;

/// The unit of all templates.
const UNIT: Unit = Unit::Tokens;

/// A template.
#[derive(Debug, Clone)]
pub struct Terms {
    pub allocated: i64,
    /// Its overdraft limit.
    pub limit: i64,
    /// Its limit over a window.
    pub window: Option<i64>,
    /// Whether it has a period.
    pub renews: bool,
    pub observes: bool,
    pub overage: Overage,
}

impl Terms {
    pub fn template(&self) -> BudgetTemplate {
        let amount = |amount| json!({"unit": UNIT.as_str(), "amount": amount});
        let mut template = json!({
            "unit": UNIT.as_str(), "allocated": amount(self.allocated), "overdraft_limit": amount(self.limit),
        });
        if let Some(most) = self.window {
            let limit =
                json!({"every": WINDOWS[0], "time_zone": "Europe/Berlin", "amount": amount(most)});
            template["limits"] = json!([limit]);
        }
        if self.renews {
            template["period"] = json!({"every": "P1M", "time_zone": "Europe/Berlin"});
        }
        if self.observes {
            template["enforcement"] = json!("OBSERVE");
        }
        if let Some(overage) = self.overage {
            template["commit_overage_policy"] = json!(overage.as_str());
        }
        let template = Json::parse(template.to_string().as_bytes()).expect("JSON");
        BudgetTemplate::from_json(template).expect("a template")
    }

    fn plan(&self) -> Plan {
        Plan {
            observes: self.observes,
            period: self.renews.then_some((self.allocated.into(), 0)),
            windows: self
                .window
                .map(|most| (most.into(), 0))
                .into_iter()
                .collect(),
            ..Plan::default()
        }
    }
}

impl Model {
    /// Judges a request with the budgets that templates would make. They stay where it is to create them, and is done.
    pub fn with_templates(
        &mut self,
        (tenant, path, unit): (usize, &str, Unit),
        creates: bool,
        judge: impl FnOnce(&mut Self) -> Outcome,
    ) -> Outcome {
        let unseen = self.create_unseen((tenant, path, unit), usize::MAX);
        let mut outcome = judge(self);
        if creates && matches!(outcome, Outcome::Done { .. }) {
            return outcome;
        }
        for name in &unseen {
            self.ledgers.remove(name);
            self.plans.remove(name);
            self.overages.remove(name);
        }
        if let Outcome::Done { ledgers, .. } = &mut outcome {
            ledgers.retain(|(scope, _)| unseen.iter().all(|name| name.1 != *scope));
        }
        outcome
    }

    /// Makes the first budgets that templates would make for a path, root first, at most so many.
    pub fn create_unseen(
        &mut self,
        (tenant, path, unit): (usize, &str, Unit),
        most: usize,
    ) -> Vec<Name> {
        let unseen = self.unseen(tenant, path, unit).into_iter().take(most);
        let created = unseen.map(|(name, terms)| {
            let ledger = ModelLedger {
                allocated: terms.allocated.into(),
                limit: terms.limit.into(),
                ..ModelLedger::default()
            };
            self.ledgers.insert(name.clone(), ledger);
            self.plans.insert(name.clone(), terms.plan());
            self.overages
                .extend(terms.overage.map(|overage| (name.clone(), overage)));
            name
        });
        created.collect()
    }

    /// The scopes of a path that have a template and no ledger, each with its terms.
    fn unseen(&self, tenant: usize, path: &str, unit: Unit) -> Vec<(Name, Terms)> {
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
                Some((rank, rule.template.as_ref()?))
            });
            let (_, terms) = ranked.max_by_key(|(rank, _)| *rank)?;
            Some((name, terms.clone()))
        };
        unseen.filter_map(with_template).collect()
    }
}
