//! Usage: what a tenant spent and used, by day, scope, action and API key.

mod groups;

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use tokio::time::sleep;

pub use groups::{UsageGroups, UsageRow, UsageSum};

use super::Ledger;
use crate::domain::amount::Unit;
use crate::domain::ids::TenantId;
use crate::domain::refusal::{AccessRefusal, CountLimit, Refusal, TooMany, UsageRefusal};
use crate::domain::scope::{ScopeFilter, SegmentFilter};
use crate::domain::usage::{Combination, UsageGroup, Used};
use crate::store::{Day, MergedMonth, StoreError, UsageOf};

/// Different combinations that one report reads at most, and groups that it has at most.
const COMBINATIONS_MAX: usize = 200_000;

/// Days that a report is about where it does not say, up to today.
const DAYS_DEFAULT: i64 = 30;

/// How often a report is read because days were merged meanwhile, and the pause before the next time.
const ATTEMPTS: usize = 5;
const PAUSE: Duration = Duration::from_millis(100);

/// The usage that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsageFilter {
    /// The tenant as the client named it; whose usage is read is an argument of [`Ledger::usage`].
    pub tenant: Option<String>,
    /// First day.
    pub from: Option<Day>,
    /// Last day.
    pub to: Option<Day>,
    /// Unit.
    pub unit: Option<Unit>,
    /// Segments that the scope must have.
    pub segments: SegmentFilter,
    /// Kind of the action.
    pub action_kind: Option<String>,
    /// Name of the action.
    pub action_name: Option<String>,
    /// The API key that reserved, or reported the usage event.
    pub key_id: Option<String>,
    /// What makes a group.
    pub groups: Vec<UsageGroup>,
}

/// The result.
#[derive(Debug)]
pub struct UsageReport {
    /// The groups.
    pub groups: UsageGroups,
    /// Whether all that was asked for is in them: not where some of it is only known as `other`, of which the caller, or the
    /// filter, may see nothing.
    pub is_complete: bool,
    /// The first day of which usage is known.
    pub complete_from: Day,
}

impl UsageFilter {
    /// Whether it asks for some combinations alone, so that it cannot be said which part of `other` they are.
    fn is_narrow(&self) -> bool {
        let texts = [&self.action_kind, &self.action_name, &self.key_id];
        self.segments.is_within_tenant() || texts.iter().any(|text| text.is_some())
    }

    fn days(&self, today: Day) -> (Day, Day) {
        let to = self.to.unwrap_or(today);
        (self.from.unwrap_or_else(|| to.plus(1 - DAYS_DEFAULT)), to)
    }
}

impl Ledger {
    /// What a tenant used, as far as a fence admits.
    ///
    /// # Errors
    /// [`StoreError`]; refused is a filter outside the fence, a part of days that were merged, and more than 200,000
    /// combinations.
    pub async fn usage(
        &self,
        fence: &ScopeFilter,
        tenant: &TenantId,
        filter: &UsageFilter,
    ) -> Result<UsageReport, StoreError> {
        if filter.segments.is_outside(fence) {
            return Err(AccessRefusal::ScopeForbidden(fence.clone()).into());
        }
        let today = self.store.today();
        let (from, to) = filter.days(today);
        let kept_from = today.month(-self.usage_months);
        let counted_from = self.store.usage_from().await?;
        let (from, to) = (from.max(kept_from), to.min(today.plus(1)));
        let months = months_of(from, to);
        let mut attempt = 0;
        loop {
            attempt += 1;
            let merged = self.store.merged_months(tenant, &months).await?;
            let spans = spans_of((from, to), &months, &merged, filter)?;
            let mut read = Reading::new(fence, tenant, filter);
            let count = |span, field: &str, value: &str| read.count(span, field, value);
            self.store.each_usage(tenant, &spans, count).await?;
            // Days that were merged meanwhile were read twice or not at all.
            let after = self.store.merged_months(tenant, &months).await?;
            if read_of(&merged, from).eq(read_of(&after, from)) {
                return Ok(UsageReport {
                    groups: read.groups,
                    is_complete: read.is_complete,
                    complete_from: counted_from.max(kept_from),
                });
            }
            if attempt == ATTEMPTS {
                return Err(Refusal::from(UsageRefusal::Merging).into());
            }
            sleep(PAUSE).await;
        }
    }
}

/// The months that a report from a day on reads, as they were merged.
fn read_of(merged: &[Option<MergedMonth>], from: Day) -> impl Iterator<Item = &MergedMonth> {
    let merged = merged.iter().flatten();
    merged.filter(move |month| month.until >= from)
}

/// The months of days, by their first days.
fn months_of(from: Day, to: Day) -> Vec<Day> {
    let next = |month: &Day| Some(month.month(1));
    let months = std::iter::successors(Some(from.month(0)), next);
    months.take_while(|month| *month <= to).collect()
}

/// The months that are read as wholes, and the days.
fn spans_of(
    (from, to): (Day, Day),
    months: &[Day],
    merged: &[Option<MergedMonth>],
    filter: &UsageFilter,
) -> Result<Vec<UsageOf>, UsageRefusal> {
    let mut spans = Vec::new();
    for (month, merged) in months.iter().zip(merged) {
        let Some(until) = merged.as_ref().map(|merged| merged.until) else {
            continue;
        };
        // A month of which the days asked for come later is read by day alone.
        if until < from {
            continue;
        }
        let (first, last) = (month.date(), until.date());
        if from > *month || to < until {
            return Err(UsageRefusal::Cut { first, last });
        }
        if filter.groups.contains(&UsageGroup::Day) {
            return Err(UsageRefusal::ByDay { first, last });
        }
        spans.push(UsageOf::Month(*month));
    }
    let days = Day::between(from.start_ms(), to.start_ms());
    spans.extend(days.map(UsageOf::Day));
    Ok(spans)
}

/// A report while it is read.
struct Reading<'a> {
    fence: &'a ScopeFilter,
    tenant: String,
    filter: &'a UsageFilter,
    groups: UsageGroups,
    is_complete: bool,
    hasher: RandomState,
    seen: HashSet<u64>,
}

impl<'a> Reading<'a> {
    fn new(fence: &'a ScopeFilter, tenant: &TenantId, filter: &'a UsageFilter) -> Self {
        Self {
            fence,
            tenant: format!("tenant:{tenant}"),
            filter,
            groups: UsageGroups::new(&filter.groups),
            is_complete: true,
            hasher: RandomState::new(),
            seen: HashSet::new(),
        }
    }

    fn count(&mut self, span: UsageOf, field: &str, value: &str) -> Result<(), StoreError> {
        let Some((combination, used)) = Combination::parse(field).zip(Used::parse(value)) else {
            return Ok(());
        };
        self.seen.insert(self.hasher.hash_one(field));
        if self.seen.len().max(self.groups.len()) > COMBINATIONS_MAX {
            let most = COMBINATIONS_MAX as i64;
            let too_many = TooMany {
                count: CountLimit::Combinations,
                limit: most,
                present: most + 1,
            };
            return Err(Refusal::from(too_many).into());
        }
        if self
            .filter
            .unit
            .is_some_and(|unit| unit != combination.unit)
        {
            return Ok(());
        }
        let Some(parts) = combination.parts else {
            match self.fence.is_unrestricted() && !self.filter.is_narrow() {
                true => self.groups.add(&self.tenant, span, combination, used),
                false => self.is_complete = false,
            }
            return Ok(());
        };
        let scope = parts.scope(&self.tenant);
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        let is_wanted = self.filter.segments.matches_text(&scope)
            && is(&self.filter.action_kind, parts.kind)
            && is(&self.filter.action_name, parts.name)
            && is(&self.filter.key_id, parts.key_id);
        if is_wanted && self.fence.admits(&scope) {
            self.groups.add(&scope, span, combination, used);
        }
        Ok(())
    }
}
