//! Overage policies, caps, and the policies that operators set for scopes.

mod pattern;
mod record;
mod set;
mod template;

pub use pattern::ScopePattern;
pub use record::{
    Policy, PolicyCreateRequest, PolicyStatus, PolicyUpdateRequest, RateLimits,
    ReservationTtlOverride, TEMPLATES_BELOW,
};
pub use set::{PolicySelection, PolicySet};
pub use template::BudgetTemplate;

use super::fields::{Read as _, Text, object};
use super::ids::{RandomPart, random_id};
use super::record::stored_text;
use super::words::words;

random_id! {
    /// Names a policy: `pol_05f_` and 12 lower-case letters and digits. It carries the partition of its tenant.
    PolicyId: "pol", RandomPart::SHORT
}

words! {
    /// How to charge an action that cost more than was reserved for it.
    OveragePolicy: "SCREAMING_SNAKE_CASE" {
        /// The commit is refused.
        Reject,
        /// The remaining amount is charged, and budgets without enough funds are marked as over their limit.
        AllowIfAvailable,
        /// The missing amount becomes debt, up to each budget's overdraft limit.
        AllowWithOverdraft,
    }
}

words! {
    /// How a commit compares with its hold.
    Overage: "snake_case" {
        /// It took no more.
        Within,
        /// It took more, which remained.
        Beyond,
        /// It took more than remained, and only what remained was charged.
        Capped,
        /// It took more than remained, and what was missing became debt.
        Debt,
    }
}

impl OveragePolicy {
    /// The default where request, policy, budget and tenant set none.
    pub const DEFAULT: Self = Self::AllowIfAvailable;
}

object! {
    /// Limits that the caller promises to keep while it acts. The service only states them.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct Caps: Read + Serialize {
        /// Most tokens that the action may use.
        pub max_tokens: Option<i64> { range: 0.. },
        /// Most steps that may still be taken.
        pub max_steps_remaining: Option<i64> { range: 0.. },
        /// Names of actions that may be used. If it has an entry, `tool_denylist` is ignored.
        pub tool_allowlist: Option<Vec<String>> { each: Text::chars(..=256) },
        /// Names of actions that may not be used.
        pub tool_denylist: Option<Vec<String>> { each: Text::chars(..=256) },
        /// How long to wait before the next action, in milliseconds.
        pub cooldown_ms: Option<i64> { range: 0.. },
    }
}

impl Caps {
    /// Whether nothing is stated, which is as good as no caps.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

// Caps that say nothing are as good as none.
stored_text!(Caps, Self::parse_stored, |caps| (!caps.is_empty())
    .then(|| caps.to_json()));
