//! Time that passes for a ledger: what is stored of it moves into the past. And what readers see of plans.

use std::collections::BTreeMap;

use budget_authority::domain::budget::increase::Increases;
use budget_authority::domain::budget::ledger::BudgetLedger;
use budget_authority::domain::budget::limit::Windows;
use budget_authority::domain::budget::period::BudgetPeriod;
use budget_authority::domain::moment::Moment;
use budget_authority::domain::record::{Record, Stored as _};
use serde_json::{Value, json};

use super::plan_steps::key_of;
use super::plans::Passed;
use super::pure::{Model, Name};
use crate::harness::ledger_fixture::LedgerFixture;

/// What a ledger keeps about time.
const TIMES: [&str; 5] = [
    "period_start",
    "period_end",
    "turns_at_ms",
    "limits",
    "increases",
];

/// Lets time pass on both sides.
pub async fn pass(fixture: &LedgerFixture, model: &mut Model, name: &Name, passed: &Passed) {
    let key = key_of(fixture, name);
    let stored: BTreeMap<String, String> = fixture.run(&["HGETALL", &key]).await;
    let record: Record = stored.clone().into_iter().collect();
    let Some(plan) = model.plans.get_mut(name) else {
        return;
    };
    let now_ms = fixture.store.clock().now_ms();
    let mut fields: Vec<(&'static str, String)> = Vec::new();
    let due_ms = match passed {
        Passed::Periods(periods) => {
            let period: Option<BudgetPeriod> = record.optional("period").expect("a period");
            let (Some(period), true) = (period, plan.period.is_some()) else {
                return;
            };
            let end: Moment = record.read("period_end").expect("an end");
            let mut bounds = period.schedule().bounds(end.as_ms() - 1);
            for _ in 0..*periods {
                bounds = period.schedule().bounds(bounds.start_ms - 1);
            }
            let text = |ms| Moment::from_ms(ms).expect("a time").to_string();
            fields.push(("period_start", text(bounds.start_ms)));
            fields.push(("period_end", text(bounds.end_ms)));
            plan.begun += periods;
            bounds.end_ms
        }
        Passed::Increase(which) => {
            if plan.increases.is_empty() {
                return;
            }
            let at = which % plan.increases.len();
            let (id, amount) = plan.increases.remove(at);
            plan.ended.push(amount);
            let until_ms = now_ms - 1;
            fields.push(("increases", ended_at(&stored["increases"], &id, until_ms)));
            until_ms
        }
        Passed::Windows => {
            if plan.windows.is_empty() {
                return;
            }
            plan.windows.iter_mut().for_each(|(_, used)| *used = 0);
            model.periods.pass_windows(name);
            let moved = moved_back(&stored["limits"]);
            let windows = Windows::from_field("limits", &moved).expect("limits");
            fields.push(("limits", windows.to_string()));
            windows.turns_at_ms().unwrap_or(0)
        }
    };
    let turns_at: i64 = stored["turns_at_ms"].parse().unwrap_or(0);
    // A ledger that is idle, or whose terms have changed, is due anyway.
    if turns_at > 1 && due_ms > 0 && due_ms < turns_at {
        fields.push(("turns_at_ms", due_ms.to_string()));
    }
    fixture.set(&key, &fields_of(&fields)).await;
}

/// What is stored about time.
pub async fn kept(fixture: &LedgerFixture, name: &Name) -> Vec<(&'static str, String)> {
    let key = key_of(fixture, name);
    let stored: BTreeMap<String, String> = fixture.run(&["HGETALL", &key]).await;
    let fields = TIMES.into_iter();
    fields
        .filter_map(|field| Some((field, stored.get(field)?.clone())))
        .collect()
}

pub fn fields_of<'a>(fields: &'a [(&'static str, String)]) -> Vec<(&'a str, &'a str)> {
    fields
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect()
}

fn ended_at(increases: &str, id: &str, until_ms: i64) -> String {
    let line = |line: &str| match line.split_once(' ') {
        Some((known, _)) if known == id => {
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            let mut kept: Value = serde_json::from_str(words[3]).expect("JSON");
            kept["until"] = json!(Moment::from_ms(until_ms).expect("a time"));
            format!("{id} {} {until_ms} {kept}", words[1])
        }
        _ => line.to_owned(),
    };
    increases.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Windows one length earlier.
fn moved_back(limits: &str) -> String {
    let line = |line: &str| {
        let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let ms = |at: usize| words[at].parse::<i64>().expect("a time");
        let length_ms = ms(3) - ms(2);
        let moved = [2, 3, 4].map(|at| (at, ms(at) - length_ms));
        for (at, ms) in moved {
            words[at] = ms.to_string();
        }
        words.join(" ")
    };
    let lines = limits.lines().skip(1).map(line);
    format!("0 0\n{}", lines.collect::<Vec<_>>().join("\n"))
}

/// The plans of all ledgers, as readers see them.
pub async fn compare(fixture: &LedgerFixture, model: &Model) -> Result<(), String> {
    for (name, plan) in &model.plans {
        let stored: BTreeMap<String, String> =
            fixture.run(&["HGETALL", &key_of(fixture, name)]).await;
        let record: Record = stored.into_iter().collect();
        let now_ms = fixture.store.clock().now_ms();
        let ledger =
            BudgetLedger::at(&record, now_ms).map_err(|error| format!("{name:?}: {error}"))?;
        let seen = serde_json::to_value(&ledger).expect("JSON");
        let used = |limit: &Value| i128::from(limit["used"]["amount"].as_i64().unwrap_or(-1));
        let windows: Vec<_> = seen["limits"]
            .as_array()
            .into_iter()
            .flatten()
            .map(used)
            .collect();
        let expected: Vec<_> = plan.windows.iter().map(|(_, used)| *used).collect();
        let increases = ledger
            .increases
            .as_ref()
            .map_or(0, |all: &Increases| all.timed().len());
        if (&windows, increases) != (&expected, plan.increases.len()) {
            return Err(format!("{name:?} has {seen}, the model says {plan:?}"));
        }
    }
    Ok(())
}
