//! Groups of usage and their totals.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::domain::amount::{Amount, Unit};
use crate::domain::fields::object;
use crate::domain::scope::value_of;
use crate::domain::usage::{Combination, UsageGroup, Used};
use crate::store::UsageOf;

object! {
    /// Usage of one group, in one unit. What the group does not tell is absent.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct UsageRow: Serialize {
        /// UTC day, such as `2026-07-04`.
        pub day: Option<String>,
        /// UTC month, such as `2026-07`.
        pub month: Option<String>,
        /// Tenant.
        pub tenant: Option<String>,
        /// Workspace, in lower case.
        pub workspace: Option<String>,
        /// Application, in lower case.
        pub app: Option<String>,
        /// Workflow, in lower case.
        pub workflow: Option<String>,
        /// Agent, in lower case.
        pub agent: Option<String>,
        /// Set of tools, in lower case.
        pub toolset: Option<String>,
        /// Deepest scope of the subject.
        pub scope: Option<String>,
        /// Kind of the action.
        pub action_kind: Option<String>,
        /// Name of the action.
        pub action_name: Option<String>,
        /// The API key that reserved, or reported the usage event.
        pub key_id: Option<String>,
        /// `true`: what was used in combinations of scope, action and API key beyond 20,000 a day, of which only the sum is known.
        pub other: Option<bool>,
        /// What was charged.
        pub charged: Amount,
        /// What was given back, on the day of the refund.
        pub refunded: Amount,
        /// How many charges there were.
        pub count: i64 { range: 0.. },
        /// `true`: a sum went beyond 2^63−1, and is shown as that.
        pub saturated: Option<bool>,
    }
}

/// A group.
#[derive(Debug, Clone)]
pub struct UsageSum {
    /// Its text for each of [`UsageGroups::by`]; `None` for what a subject lacks, and for what is not known of `other`.
    pub values: Vec<Option<String>>,
    /// Unit.
    pub unit: Unit,
    /// Whether it is of combinations that were not kept apart.
    pub is_other: bool,
    /// Its totals.
    pub used: Used,
}

/// The groups of a report.
#[derive(Debug)]
pub struct UsageGroups {
    by: Vec<UsageGroup>,
    /// By a text that no two of them share.
    totals: HashMap<String, UsageSum>,
    key: String,
    /// The last span, and its date.
    dated: Option<(UsageOf, String)>,
}

impl UsageGroups {
    pub(super) fn new(by: &[UsageGroup]) -> Self {
        Self {
            by: by.to_owned(),
            totals: HashMap::new(),
            key: String::new(),
            dated: None,
        }
    }

    /// What makes a group.
    pub fn by(&self) -> &[UsageGroup] {
        &self.by
    }

    pub(super) fn len(&self) -> usize {
        self.totals.len()
    }

    /// Adds the usage of a combination in this scope, or of the tenant's that were not kept apart.
    pub(super) fn add(
        &mut self,
        scope: &str,
        span: UsageOf,
        combination: Combination<'_>,
        used: Used,
    ) {
        let unit = combination.unit;
        // Of what was not kept apart, only times and the tenant are known.
        let is_known = |group: &UsageGroup| group.is_time() || *group == UsageGroup::Tenant;
        let is_other = combination.parts.is_none() && !self.by.iter().all(is_known);
        let dated = self.dated.take().filter(|(known, _)| *known == span);
        let (_, date) = self
            .dated
            .insert(dated.unwrap_or_else(|| (span, span.first_day().date())));
        let date = &*date;
        let value = |group: &UsageGroup| {
            let parts = combination.parts;
            Some(match group {
                UsageGroup::Day => date,
                UsageGroup::Month => &date[..7],
                UsageGroup::Scope => parts.map(|_| scope)?,
                UsageGroup::ActionKind => parts?.kind,
                UsageGroup::ActionName => parts?.name,
                UsageGroup::KeyId => parts?.key_id,
                level => value_of(scope, level.level()?)?,
            })
        };
        self.key.clear();
        let _ = write!(self.key, "{} {is_other}", unit.index());
        for group in &self.by {
            // With its length, a text cannot run into the next one.
            let _ = match value(group) {
                Some(text) => write!(self.key, " {}:{text}", text.len()),
                None => write!(self.key, " -"),
            };
        }
        if let Some(sum) = self.totals.get_mut(&self.key) {
            return sum.used.add(used);
        }
        let values = self
            .by
            .iter()
            .map(|group| value(group).map(str::to_owned))
            .collect();
        let sum = UsageSum {
            values,
            unit,
            is_other,
            used,
        };
        self.totals.insert(self.key.clone(), sum);
    }

    /// The groups by what was charged, the most first; equal ones by their texts. Each with a text that no two of them share.
    pub fn sorted(self) -> Vec<(String, UsageSum)> {
        let mut totals: Vec<_> = self.totals.into_iter().collect();
        totals.sort_unstable_by(|(a_key, a), (b_key, b)| {
            let by_charged = b.used.charged.cmp(&a.used.charged);
            by_charged.then_with(|| a_key.cmp(b_key))
        });
        totals
    }
}

impl UsageSum {
    /// As a row. `by`: what its values are.
    pub fn row(mut self, by: &[UsageGroup]) -> Option<UsageRow> {
        let mut of = |wanted: UsageGroup| {
            let place = by.iter().position(|group| *group == wanted)?;
            self.values[place].take()
        };
        Some(UsageRow {
            day: of(UsageGroup::Day),
            month: of(UsageGroup::Month),
            tenant: of(UsageGroup::Tenant),
            workspace: of(UsageGroup::Workspace),
            app: of(UsageGroup::App),
            workflow: of(UsageGroup::Workflow),
            agent: of(UsageGroup::Agent),
            toolset: of(UsageGroup::Toolset),
            scope: of(UsageGroup::Scope),
            action_kind: of(UsageGroup::ActionKind),
            action_name: of(UsageGroup::ActionName),
            key_id: of(UsageGroup::KeyId),
            other: self.is_other.then_some(true),
            charged: Amount::new(self.unit, self.used.charged)?,
            refunded: Amount::new(self.unit, self.used.refunded)?,
            count: self.used.count,
            saturated: self.used.is_saturated.then_some(true),
        })
    }
}
