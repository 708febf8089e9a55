//! Usage by scope, action and unit: the reports against the charges of the model.

use std::collections::BTreeMap;

use budget_authority::domain::amount::Unit;
use budget_authority::domain::scope::ScopeFilter;
use budget_authority::domain::usage::UsageGroup;
use budget_authority::ledger::UsageFilter;

use super::pure::Model;
use super::sides::action;
use crate::harness::ledger_fixture::LedgerFixture;

/// The groups that are compared.
const GROUPINGS: [&[UsageGroup]; 5] = [
    &[],
    &[UsageGroup::Scope],
    &[UsageGroup::ActionName, UsageGroup::Agent],
    &[
        UsageGroup::App,
        UsageGroup::ActionKind,
        UsageGroup::Workspace,
    ],
    &[UsageGroup::KeyId, UsageGroup::Tenant],
];

/// Sums that would be larger stay there.
const MAX: i128 = i64::MAX as i128;

/// What was charged, how often, and what was given back.
type Totals = BTreeMap<(Vec<Option<String>>, Unit), (i128, i64, i128)>;

/// Compares what every tenant used.
pub async fn compare(fixture: &LedgerFixture, model: &Model) -> Result<(), String> {
    let yesterday = fixture.store.today().plus(-1);
    for (tenant, caller) in fixture.callers.iter().enumerate() {
        for groups in GROUPINGS {
            let filter = UsageFilter {
                from: Some(yesterday),
                groups: groups.to_vec(),
                ..UsageFilter::default()
            };
            let all = ScopeFilter::default();
            let report = fixture.ledger.usage(&all, &caller.tenant, &filter).await;
            let report = report.map_err(|error| error.to_string())?;
            let totals = report.groups.sorted().into_iter().map(|(_, sum)| {
                let used = sum.used;
                (
                    (sum.values, sum.unit),
                    (used.charged.into(), used.count, used.refunded.into()),
                )
            });
            let (found, expected) = (
                totals.collect::<Totals>(),
                expected(fixture, model, tenant, groups),
            );
            if found != expected {
                return Err(format!(
                    "usage of {tenant} by {groups:?} is {found:?}, the model says {expected:?}"
                ));
            }
        }
    }
    Ok(())
}

fn expected(
    fixture: &LedgerFixture,
    model: &Model,
    tenant: usize,
    groups: &[UsageGroup],
) -> Totals {
    let mut totals = Totals::new();
    for held in model.held.iter().filter(|held| held.tenant == tenant) {
        let Some(charged) = &held.charged else {
            continue;
        };
        let value = |group: &UsageGroup| match group {
            UsageGroup::Scope => Some(held.path.clone()),
            UsageGroup::ActionKind => Some(action(&held.path).kind.to_string()),
            UsageGroup::ActionName => Some(action(&held.path).name.to_string()),
            UsageGroup::KeyId => Some(fixture.callers[tenant].key_id.to_string()),
            level => {
                let level = format!("{}:", level.as_str());
                let mut segments = held.path.split('/');
                segments
                    .find_map(|segment| segment.strip_prefix(&level))
                    .map(str::to_owned)
            }
        };
        let group = (groups.iter().map(value).collect(), held.unit);
        let sum = totals.entry(group).or_default();
        let (amount, refunded) = charged.amounts();
        *sum = (
            (sum.0 + amount).min(MAX),
            sum.1 + 1,
            (sum.2 + refunded).min(MAX),
        );
    }
    totals
}
