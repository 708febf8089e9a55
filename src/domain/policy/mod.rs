//! What shapes a reservation beside its budgets: overage policies, caps, and the policies that operators make for scopes.

mod id;
mod pattern;
mod record;
mod set;

pub use id::PolicyId;
pub use pattern::ScopePattern;
pub use record::{Policy, PolicyStatus, RateLimits, ReservationTtlOverride};
pub use set::{InForce, PolicySelection, PolicySet};

use serde::Serialize;
use utoipa::ToSchema;
use utoipa::openapi::schema::Array;

use super::fields::{Value, schema};
use super::json::Json;

/// What happens when an action cost more than was reserved for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OveragePolicy {
    /// The commit is refused.
    Reject,
    /// What is left is charged, and the budgets that fell short are marked as over their limit.
    AllowIfAvailable,
    /// What is missing becomes debt, up to each budget's overdraft limit.
    AllowWithOverdraft,
}

impl OveragePolicy {
    /// Every policy.
    pub const ALL: [Self; 3] = [
        Self::Reject,
        Self::AllowIfAvailable,
        Self::AllowWithOverdraft,
    ];

    /// The name on the wire and in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reject => "REJECT",
            Self::AllowIfAvailable => "ALLOW_IF_AVAILABLE",
            Self::AllowWithOverdraft => "ALLOW_WITH_OVERDRAFT",
        }
    }

    /// Reads the name, case-sensitively.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == text)
    }

    /// Reads the member of a request.
    pub fn read(value: Value<'_>) -> Option<Self> {
        value.one_of(Self::parse, &Self::ALL.map(Self::as_str))
    }
}

/// Limits that the caller promises to keep while it acts. The service only states them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Caps {
    /// Most tokens that the action may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, nullable = false)]
    pub max_tokens: Option<i64>,
    /// Most steps that may still be taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, nullable = false)]
    pub max_steps_remaining: Option<i64>,
    /// Names of actions that may be used. If it has an entry, `tool_denylist` is ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = allowlist_schema, required = false)]
    pub tool_allowlist: Option<Vec<String>>,
    /// Names of actions that may not be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = denylist_schema, required = false)]
    pub tool_denylist: Option<Vec<String>>,
    /// How long to wait before the next action, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, nullable = false)]
    pub cooldown_ms: Option<i64>,
}

impl Caps {
    /// Reads the member of a request.
    pub fn read(value: Value<'_>) -> Option<Self> {
        value.object(|caps| {
            let mut limit = |name| caps.optional(name, |value| value.integer(0..=i64::MAX));
            let (max_tokens, max_steps_remaining) =
                (limit("max_tokens"), limit("max_steps_remaining"));
            let cooldown_ms = limit("cooldown_ms");
            let mut tools = |name| {
                caps.optional(name, |value| {
                    value.array(usize::MAX, |name| name.string(0..=256))
                })
            };
            Some(Self {
                max_tokens,
                max_steps_remaining,
                tool_allowlist: tools("tool_allowlist"),
                tool_denylist: tools("tool_denylist"),
                cooldown_ms,
            })
        })
    }

    /// Whether nothing is stated, which is as good as no caps.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The form in records: compact JSON.
    pub fn stored(&self) -> String {
        serde_json::to_string(self).expect("integers and texts serialize")
    }

    /// Reads the form in records.
    pub fn from_stored(text: &str) -> Option<Self> {
        let json = Json::parse(text.as_bytes()).ok()?;
        let wrapped = Json::Object(vec![("caps".to_owned(), json)]);
        let read = |body: &mut super::fields::Object<'_>| body.required("caps", Self::read);
        super::fields::read_body(wrapped, read).ok()
    }
}

fn allowlist_schema() -> Array {
    let description =
        "Names of actions that may be used. If it has an entry, `tool_denylist` is ignored.";
    schema::string_array(description, None, 256)
}

fn denylist_schema() -> Array {
    schema::string_array("Names of actions that may not be used.", None, 256)
}
