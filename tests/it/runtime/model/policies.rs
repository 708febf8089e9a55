//! Policies, modelled: every request considers all of them.

use std::collections::BTreeMap;

use budget_authority::admin::Admin;
use budget_authority::domain::dialect::Dialect;
use budget_authority::domain::fields::Patch;
use budget_authority::domain::policy::PolicyCreateRequest;
use budget_authority::domain::policy::PolicyUpdateRequest;
use budget_authority::domain::policy::{
    BudgetTemplate, OveragePolicy, Policy, PolicyStatus, ReservationTtlOverride, ScopePattern,
};

use super::pure::{Model, Name};
use super::templates::Terms;
use crate::harness::admin_fixture::{admin_key, ask};
use crate::harness::ledger_fixture::LedgerFixture;

/// The scope after the tenant's segment.
pub const PATTERNS: [&str; 6] = [
    "",
    "/*",
    "/workspace:prod",
    "/workspace:prod/*",
    "/workspace:prod/agent:*",
    "/agent:*",
];

/// A policy to write.
#[derive(Debug, Clone)]
pub struct Rule {
    pub pattern: usize,
    pub priority: i64,
    pub overage: Option<OveragePolicy>,
    pub extensions: Option<i64>,
    pub template: Option<Terms>,
    pub active: bool,
}

/// The policies of all tenants, by tenant and name.
pub type Rules = BTreeMap<(usize, usize), (Rule, Policy)>;

impl Model {
    /// The settings of a reservation made now: its overage policy and how often it may be extended. `deepest` is the
    /// ledger of its deepest scope that has one.
    pub fn terms(
        &self,
        path: &str,
        deepest: &Name,
        requested: Option<OveragePolicy>,
    ) -> (OveragePolicy, usize) {
        let tenant = deepest.0;
        let of_tenant = self.policies.iter().filter(|((of, _), _)| *of == tenant);
        let matching = of_tenant
            .map(|(_, policy)| policy)
            .filter(|(rule, _)| rule.active && matches(PATTERNS[rule.pattern], path));
        let counting = matching.max_by_key(|(rule, made)| {
            let segments = PATTERNS[rule.pattern].matches('/').count();
            let id = std::cmp::Reverse(made.policy_id.as_str());
            (rule.priority, segments, made.created_at, id)
        });
        let rule = counting.map(|(rule, _)| rule);
        let (of_tenant, extensions) = self.settings.get(&tenant).copied().unwrap_or((None, 10));
        let overage = requested
            .or(rule.and_then(|rule| rule.overage))
            .or(self.overages.get(deepest).copied())
            .or(of_tenant);
        let extensions = rule.and_then(|rule| rule.extensions).unwrap_or(extensions);
        (
            overage.unwrap_or(OveragePolicy::AllowIfAvailable),
            usize::try_from(extensions).expect("not negative"),
        )
    }
}

/// Whether a policy with this pattern is for a path.
pub fn matches(pattern: &str, path: &str) -> bool {
    let below = path.find('/').map_or("", |at| &path[at..]);
    match pattern.strip_suffix('*') {
        None => below == pattern,
        Some(stem) => below
            .strip_prefix(stem)
            .is_some_and(|rest| !rest.is_empty() && (stem.ends_with('/') || !rest.contains('/'))),
    }
}

/// The templates of a rule; a pattern for all below a scope has none.
fn templates(rule: &Rule, pattern: usize) -> Vec<BudgetTemplate> {
    let terms = rule.template.iter();
    terms
        .filter(|_| !PATTERNS[pattern].ends_with("/*"))
        .map(Terms::template)
        .collect()
}

/// Makes or changes the policy of a name, on both sides.
pub async fn govern(
    fixture: &LedgerFixture,
    model: &mut Model,
    tenant: usize,
    name: usize,
    rule: Rule,
) {
    let admin = Admin::new(fixture.store.clone(), Dialect::Service);
    let owner = &fixture.callers[tenant].tenant;
    let ttl = ReservationTtlOverride {
        max_extensions: rule.extensions,
        ..ReservationTtlOverride::default()
    };
    if let Some((stored, made)) = model.policies.get_mut(&(tenant, name)) {
        let changes = PolicyUpdateRequest {
            priority: Patch::Set(rule.priority),
            commit_overage_policy: rule.overage.map_or(Patch::Clear, Patch::Set),
            reservation_ttl_override: Patch::Set(ttl),
            budget_templates: Patch::Set(templates(&rule, stored.pattern)),
            status: Some(match rule.active {
                true => PolicyStatus::Active,
                false => PolicyStatus::Disabled,
            }),
            ..PolicyUpdateRequest::default()
        };
        let id = made.policy_id.as_str();
        admin
            .update_policy(&admin_key(), id, &changes, &ask().request())
            .await
            .expect("a changed policy");
        // The pattern of a policy never changes.
        *stored = Rule {
            pattern: stored.pattern,
            ..rule
        };
        return;
    }
    let pattern = format!("tenant:{owner}{}", PATTERNS[rule.pattern]);
    let new = PolicyCreateRequest {
        tenant_id: Some(owner.to_string()),
        name: format!("policy {name}"),
        description: None,
        scope_pattern: pattern.clone(),
        priority: rule.priority,
        caps: None,
        commit_overage_policy: rule.overage,
        reservation_ttl_override: Some(ttl),
        rate_limits: None,
        budget_templates: Some(templates(&rule, rule.pattern)),
        effective_from: None,
        effective_until: None,
    };
    let made = admin
        .create_policy(
            &admin_key(),
            &new,
            &ScopePattern::parse(&pattern).expect("a pattern"),
            &ask().request(),
        )
        .await
        .expect("a new policy");
    let rule = Rule {
        active: true,
        ..rule
    };
    model.policies.insert((tenant, name), (rule, made));
}
