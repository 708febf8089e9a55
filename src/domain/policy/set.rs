//! All policies of a tenant, indexed by pattern: the one that applies to a scope is found without examining the others.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use smol_str::SmolStr;

use super::{Policy, PolicyId, PolicyStatus};
use crate::domain::amount::Unit;
use crate::domain::fields::Read as _;
use crate::domain::scope::ScopePath;

/// A time after all others that a script can still compare exactly, in milliseconds.
const NEVER_MS: i64 = (1 << 53) - 1;

/// About the memory of a policy without pattern and caps, in bytes.
const POLICY_BYTES: usize = 500;
/// The same for a template of a budget with a few limits.
const TEMPLATE_BYTES: usize = 400;

/// The policy for one request, and for how long that holds: while the tenant's policies have this version, and the store's
/// clock is within the interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicySelection {
    /// The version of the tenant's policies; empty for a tenant that never had one.
    pub version: SmolStr,
    /// From this time on, in milliseconds.
    pub from_ms: i64,
    /// Until before this time, in milliseconds.
    pub until_ms: i64,
    /// The policy, if one applies. The request goes before it, the settings of ledger and tenant come after.
    pub policy: Option<Arc<Policy>>,
    /// The policies whose templates apply to the scope and those above it, with the depth of each, the root at 1.
    pub templates: Vec<(usize, Arc<Policy>)>,
}

impl Default for PolicySelection {
    /// The set of a tenant that never had a policy.
    fn default() -> Self {
        Self {
            version: SmolStr::default(),
            from_ms: 0,
            until_ms: NEVER_MS,
            policy: None,
            templates: Vec::new(),
        }
    }
}

impl PolicySelection {
    /// The policy that wins at a time; the selection holds until another one would. Among those that are within their window: the highest
    /// priority, then the most segments, then the newest, then the smallest id.
    fn best<'a>(
        &mut self,
        policies: impl Iterator<Item = &'a Arc<Policy>>,
        now_ms: i64,
    ) -> Option<Arc<Policy>> {
        let mut best: Option<&Arc<Policy>> = None;
        for policy in policies {
            let [from, until] = [policy.effective_from, policy.effective_until]
                .map(|edge| edge.map(|edge| edge.as_ms()));
            for edge in [from, until].into_iter().flatten() {
                if edge <= now_ms {
                    self.from_ms = self.from_ms.max(edge);
                } else {
                    self.until_ms = self.until_ms.min(edge);
                }
            }
            let is_open =
                from.is_none_or(|from| from <= now_ms) && until.is_none_or(|until| now_ms < until);
            if is_open && best.is_none_or(|best| rank(policy) > rank(best)) {
                best = Some(policy);
            }
        }
        best.cloned()
    }
}

/// The active policies of a tenant at one version, without name and description.
#[derive(Debug, Default)]
pub struct PolicySet {
    version: SmolStr,
    by_pattern: HashMap<String, Vec<Arc<Policy>>>,
    has_templates: bool,
    bytes: usize,
}

impl PolicySet {
    /// From the records; what is disabled is left out.
    pub fn new(version: &str, policies: impl IntoIterator<Item = Policy>) -> Self {
        let mut set = Self {
            version: version.into(),
            ..Self::default()
        };
        for policy in policies {
            if policy.status == PolicyStatus::Active {
                set.add(Arc::new(Policy {
                    name: String::new(),
                    description: None,
                    caps: policy.caps.filter(|caps| !caps.is_empty()),
                    ..policy
                }));
            }
        }
        set
    }

    /// The same at a later version, with these policies new or changed. Of one that changed twice, the last counts.
    pub fn with_changes(&self, version: &str, changed: Vec<Policy>) -> Self {
        let changed = changed.into_iter();
        let changed: HashMap<PolicyId, Policy> = changed
            .map(|policy| (policy.policy_id.clone(), policy))
            .collect();
        let is_kept = |policy: &&Arc<Policy>| !changed.contains_key(&policy.policy_id);
        let kept: Vec<_> = self.by_pattern.values().flatten().filter(is_kept).collect();
        let mut set = Self::new(version, changed.values().cloned());
        for policy in kept {
            set.add(Arc::clone(policy));
        }
        set
    }

    /// The version at which the policies were read.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// About how much memory they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The policy for a scope at a time, and those whose templates of a unit apply to it and to the scopes above it.
    pub fn select(&self, scope: &ScopePath, unit: Unit, now_ms: i64) -> PolicySelection {
        let mut selection = PolicySelection {
            version: self.version.clone(),
            ..PolicySelection::default()
        };
        selection.policy = selection.best(self.matching(scope.as_str()), now_ms);
        if self.has_templates {
            for (above, scope) in scope.with_parents().enumerate() {
                let has_template = |policy: &&Arc<Policy>| policy.template(unit).is_some();
                let exactly = self.matching_exactly(scope.as_str());
                let best = selection.best(exactly.filter(has_template), now_ms);
                selection
                    .templates
                    .extend(best.map(|policy| (above + 1, policy)));
            }
        }
        selection
    }

    fn add(&mut self, policy: Arc<Policy>) {
        let pattern = policy.scope_pattern.to_string();
        let caps_bytes = policy.caps.as_ref().map_or(0, |caps| caps.to_json().len());
        let templates = policy.budget_templates.as_ref();
        self.has_templates |= templates.is_some();
        self.bytes += POLICY_BYTES + pattern.len() + caps_bytes;
        self.bytes += TEMPLATE_BYTES * templates.map_or(0, Vec::len);
        self.by_pattern.entry(pattern).or_default().push(policy);
    }

    /// Looks up the patterns that match: the scope itself, all below each scope above it, and its level.
    fn matching(&self, scope: &str) -> impl Iterator<Item = &Arc<Policy>> {
        let above = scope
            .match_indices('/')
            .map(|(end, _)| format!("{}/*", &scope[..end]));
        let above = above.filter_map(|pattern| self.by_pattern.get(&pattern));
        above.flatten().chain(self.matching_exactly(scope))
    }

    /// The same without those that match all below a scope.
    fn matching_exactly(&self, scope: &str) -> impl Iterator<Item = &Arc<Policy>> {
        let level = scope
            .rfind(':')
            .map(|colon| format!("{}:*", &scope[..colon]));
        let patterns = level.into_iter().chain([scope.to_owned()]);
        patterns
            .filter_map(|pattern| self.by_pattern.get(&pattern))
            .flatten()
    }
}

fn rank(policy: &Policy) -> impl Ord {
    let segments = policy.scope_pattern.segments().count();
    let id = Reverse(&policy.policy_id);
    (policy.priority, segments, policy.created_at, id)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::moment::Moment;
    use crate::domain::record::Record;

    fn policy(number: usize, pattern: &str, priority: i64) -> Policy {
        let record = Record::from_iter([
            ("policy_id", format!("pol_05f_{number:012}")),
            ("tenant", "acme".to_owned()),
            ("name", number.to_string()),
            ("scope_pattern", pattern.to_owned()),
            ("priority", priority.to_string()),
            ("status", "ACTIVE".to_owned()),
            ("created_at_ms", "1000".to_owned()),
        ]);
        Policy::from_record(&record).expect("a sound record")
    }

    fn template() -> super::super::BudgetTemplate {
        let body = r#"{"unit":"TOKENS","allocated":{"unit":"TOKENS","amount":50}}"#;
        crate::domain::fields::read_body(body).expect("a template")
    }

    fn at(ms: i64) -> Option<Moment> {
        Moment::from_ms(ms)
    }

    fn path(text: &str) -> ScopePath {
        ScopePath::parse(text).expect("a scope")
    }

    fn selected(policies: &[Policy], scope: &str, now_ms: i64) -> Option<u64> {
        let set = PolicySet::new("v", policies.iter().cloned());
        let selection = set.select(&path(scope), Unit::Tokens, now_ms);
        let id = selection.policy?.policy_id.as_str()[8..].to_owned();
        id.parse().ok()
    }

    #[test]
    fn policies_are_ordered_by_priority_segments_age_and_id() {
        let newer = |policy: Policy| Policy {
            created_at: at(2_000).expect("a time"),
            ..policy
        };
        let deep = "tenant:acme/workspace:w/agent:a";
        let select = |policies: &[Policy]| selected(policies, deep, 5_000);
        let wide = policy(1, "tenant:acme/*", 0);
        assert_eq!(select(std::slice::from_ref(&wide)), Some(1));
        let near = policy(2, "tenant:acme/workspace:w/*", 0);
        assert_eq!(select(&[wide.clone(), near.clone()]), Some(2));
        let high = policy(3, "tenant:acme/*", 1);
        assert_eq!(select(&[near.clone(), high]), Some(3));
        let level = policy(4, "tenant:acme/workspace:w/agent:*", 0);
        assert_eq!(select(&[newer(near.clone()), level.clone()]), Some(2));
        assert_eq!(select(&[near.clone(), newer(level.clone())]), Some(4));
        assert_eq!(select(&[level, near]), Some(2), "then the smaller id");
        let exact = policy(5, "tenant:acme", i64::MAX);
        assert_eq!(select(&[exact, wide]), Some(1));
    }

    #[test]
    fn a_window_includes_its_start_and_excludes_its_end() {
        let always = policy(1, "tenant:acme", 0);
        let timed = Policy {
            effective_from: at(2_000),
            effective_until: at(3_000),
            ..policy(2, "tenant:acme", 9)
        };
        let policies = [always, timed];
        let set = PolicySet::new("v", policies.clone());
        for (now, expected, from, until) in [
            (1_999, 1, 0, 2_000),
            (2_000, 2, 2_000, 3_000),
            (2_999, 2, 2_000, 3_000),
            (3_000, 1, 3_000, NEVER_MS),
        ] {
            let id = selected(&policies, "tenant:acme", now);
            assert_eq!(id, Some(expected), "{now}");
            let selection = set.select(&path("tenant:acme"), Unit::Tokens, now);
            let interval = (selection.from_ms, selection.until_ms);
            assert_eq!(interval, (from, until), "{now}");
        }
    }

    #[test]
    fn disabled_and_unrelated_policies_do_not_apply() {
        let disabled = Policy {
            status: PolicyStatus::Disabled,
            ..policy(1, "tenant:acme", 0)
        };
        let elsewhere = Policy {
            effective_from: at(9_000),
            ..policy(2, "tenant:acme/agent:b", 0)
        };
        let set = PolicySet::new("v", [disabled, elsewhere]);
        let selection = set.select(&path("tenant:acme"), Unit::Tokens, 5_000);
        let none = PolicySelection {
            version: "v".into(),
            ..PolicySelection::default()
        };
        assert_eq!(selection, none);
    }

    #[test]
    fn changes_replace_add_and_end_policies() {
        let wide = policy(1, "tenant:acme/*", 0);
        let set = PolicySet::new("v1", [wide.clone(), policy(2, "tenant:acme", 5)]);
        let disabled = Policy {
            status: PolicyStatus::Disabled,
            ..policy(2, "tenant:acme", 5)
        };
        let changes = vec![policy(3, "tenant:acme/agent:*", 1), wide.clone(), disabled];
        let changed = set.with_changes("v2", changes);
        let whole = PolicySet::new("v2", [wide, policy(3, "tenant:acme/agent:*", 1)]);
        assert_eq!(changed.bytes(), whole.bytes());
        for scope in [
            "tenant:acme",
            "tenant:acme/agent:a",
            "tenant:acme/workspace:w",
        ] {
            let selected = changed.select(&path(scope), Unit::Tokens, 5_000);
            assert_eq!(
                selected,
                whole.select(&path(scope), Unit::Tokens, 5_000),
                "{scope}"
            );
        }
    }

    const PATTERNS: [&str; 8] = [
        "tenant:acme",
        "tenant:acme/*",
        "tenant:acme/agent:*",
        "tenant:acme/workspace:w",
        "tenant:acme/workspace:*",
        "tenant:acme/workspace:w/*",
        "tenant:acme/workspace:w/agent:*",
        "tenant:acme/workspace:w/agent:a",
    ];
    const SCOPES: [&str; 6] = [
        "tenant:acme",
        "tenant:acme/agent:a",
        "tenant:acme/workspace:w",
        "tenant:acme/workspace:v",
        "tenant:acme/workspace:w/agent:a",
        "tenant:acme/workspace:w/agent:a/toolset:t",
    ];

    proptest! {
        /// The index finds what a look at every policy finds, and until the end of its interval it keeps finding it.
        #[test]
        fn the_selection_equals_a_full_scan_and_is_valid_in_its_interval(
            drawn in prop::collection::vec(
                (0..8usize, 0..3i64, 0..3i64, prop::option::of(0..8i64), prop::option::of(0..8i64), any::<bool>()), 0..12),
            now in 0..9i64, later in 0..9i64, scope in 0..6usize,
        ) {
            let policies: Vec<Policy> = drawn.iter().enumerate().map(|(number, drawn)| Policy {
                created_at: at(drawn.2).expect("a time"),
                effective_from: drawn.3.and_then(at),
                effective_until: drawn.4.and_then(at),
                budget_templates: (drawn.5 && !PATTERNS[drawn.0].ends_with("/*")).then(|| vec![template()]),
                ..policy(number, PATTERNS[drawn.0], drawn.1)
            }).collect();
            let look_at = |scope: &ScopePath, now: i64, has_template: bool| {
                let open = |policy: &&Policy| policy.scope_pattern.matches(scope)
                    && (!has_template || policy.budget_templates.is_some())
                    && policy.effective_from.is_none_or(|from| from.as_ms() <= now)
                    && policy.effective_until.is_none_or(|until| now < until.as_ms());
                let rank = |policy: &&Policy| (policy.priority, policy.scope_pattern.segments().count(),
                    policy.created_at, Reverse(policy.policy_id.clone()));
                policies.iter().filter(open).max_by_key(rank).map(|policy| policy.policy_id.clone())
            };
            let look = |now: i64| {
                let scope = path(SCOPES[scope]);
                let above = scope.with_parents().enumerate();
                let templates = above.filter_map(|(above, scope)| Some((above + 1, look_at(&scope, now, true)?)));
                (look_at(&scope, now, false), templates.collect::<Vec<_>>())
            };
            let set = PolicySet::new("v", policies.clone());
            let selection = set.select(&path(SCOPES[scope]), Unit::Tokens, now);
            let templates = selection.templates.iter().map(|(depth, policy)| (*depth, policy.policy_id.clone()));
            let id = (selection.policy.as_ref().map(|policy| policy.policy_id.clone()), templates.collect::<Vec<_>>());
            prop_assert_eq!(&id, &look(now));
            prop_assert!(selection.from_ms <= now && now < selection.until_ms);
            if (selection.from_ms..selection.until_ms).contains(&later) {
                prop_assert_eq!(&id, &look(later));
            }
        }
    }
}
