//! The alerts of a change of a ledger, in plain arithmetic, and those that were emitted.

use super::pure::{Model, ModelLedger, Name};
use crate::harness::days::days_around;
use crate::harness::ledger_fixture::LedgerFixture;
use crate::harness::runtime_calls::announced_at;

/// In millionths, as [`BAND`]: how far below a threshold it falls.
const THRESHOLDS: [i128; 3] = [800_000, 950_000, 1_000_000];
const BAND: i128 = 50_000;
const FACTS: [&str; 4] = [
    "type",
    "data.threshold_millionths",
    "data.direction",
    "data.remaining",
];

/// The alert state of a ledger.
#[derive(Debug, Clone, Copy, Default)]
pub struct AlertState {
    /// The highest threshold that rose and has not fallen since; `None`: the one that utilization has reached.
    threshold: Option<i128>,
    /// Within the last ten seconds.
    is_fresh: bool,
    is_exhausted: bool,
    exhausted_is_fresh: bool,
}

impl ModelLedger {
    fn used(&self) -> i128 {
        self.spent + self.reserved
    }

    fn has_reached(&self, threshold: i128) -> bool {
        self.allocated > 0 && self.used() * 1_000_000 >= threshold * self.allocated
    }

    fn highest_reached(&self) -> Option<i128> {
        THRESHOLDS
            .into_iter()
            .rfind(|threshold| self.has_reached(*threshold))
    }

    fn has_ample_left(&self) -> bool {
        self.remaining() > 0 && self.remaining() * 1_000_000 >= BAND * self.allocated
    }
}

impl Model {
    pub fn ledgers_of(&self, names: &[Name]) -> Vec<ModelLedger> {
        names.iter().map(|name| self.ledgers[name]).collect()
    }

    /// Emits what the change of ledgers by one operation of the runtime plane caused.
    pub fn moved(&mut self, names: &[Name], before: &[ModelLedger]) {
        for (name, before) in names.iter().zip(before) {
            self.moved_one(name, *before);
        }
    }

    fn moved_one(&mut self, name: &Name, before: ModelLedger) {
        let after = self.ledgers[name];
        let mut announced = self.announced.get(name).copied().unwrap_or_default();
        let [least, most] = match before.used() < after.used() {
            true => [before, after],
            false => [after, before],
        };
        if after.allocated > 0 {
            announced.threshold = announced.threshold.or(before.highest_reached());
            let standing = THRESHOLDS
                .into_iter()
                .filter(|t| Some(*t) <= announced.threshold);
            let may_fall = !announced.is_fresh;
            let (fallen, standing): (Vec<_>, Vec<_>) =
                standing.partition(|t| may_fall && !least.has_reached(t - BAND));
            announced.threshold = standing.last().copied();
            for threshold in fallen.iter().rev() {
                self.alert(
                    name,
                    "budget.threshold_crossed",
                    *threshold,
                    "falling",
                    least,
                );
            }
            for threshold in THRESHOLDS {
                let rises = most.has_reached(threshold) && !before.has_reached(threshold);
                if rises && Some(threshold) > announced.threshold {
                    self.alert(name, "budget.threshold_crossed", threshold, "rising", after);
                    (announced.threshold, announced.is_fresh) = (Some(threshold), true);
                }
            }
        }
        if !announced.exhausted_is_fresh && (before.has_ample_left() || after.has_ample_left()) {
            announced.is_exhausted = false;
        }
        if !announced.is_exhausted && before.remaining() > 0 && after.remaining() <= 0 {
            self.alert(name, "budget.exhausted", 1_000_000, "rising", after);
            (announced.is_exhausted, announced.exhausted_is_fresh) = (true, true);
        }
        announced.is_fresh &= announced.threshold.is_some();
        self.announced.insert(name.clone(), announced);
    }

    /// Emits what the funding of a ledger caused.
    pub fn funded(&mut self, name: &Name, before: ModelLedger) {
        let after = self.ledgers[name];
        let known = self.announced.get(name).copied().unwrap_or_default();
        let mut announced = AlertState {
            threshold: after.highest_reached(),
            is_fresh: known.is_fresh,
            ..AlertState::default()
        };
        let both = before.allocated > 0 && after.allocated > 0;
        for threshold in THRESHOLDS.into_iter().filter(|_| both) {
            if after.has_reached(threshold) && !before.has_reached(threshold) {
                self.alert(name, "budget.threshold_crossed", threshold, "rising", after);
                announced.is_fresh = true;
            }
        }
        for threshold in THRESHOLDS.into_iter().rev().filter(|_| both) {
            if before.has_reached(threshold) && !after.has_reached(threshold) {
                self.alert(
                    name,
                    "budget.threshold_crossed",
                    threshold,
                    "falling",
                    after,
                );
            }
        }
        announced.is_fresh &= announced.threshold.is_some();
        self.announced.insert(name.clone(), announced);
    }

    /// Emits what the turn of a ledger caused: thresholds that rise, and no others.
    pub fn turned(&mut self, name: &Name, before: ModelLedger) {
        let after = self.ledgers[name];
        let emitted = self.alerts.len();
        self.funded(name, before);
        let falls = |(_, _, line): &(usize, String, String)| line.contains(" falling ");
        let kept = self.alerts.split_off(emitted);
        self.alerts
            .extend(kept.into_iter().filter(|alert| !falls(alert)));
        debug_assert_eq!(after, self.ledgers[name]);
    }

    /// Makes the alert state of a ledger old.
    fn age(&mut self, name: &Name) {
        if let Some(announced) = self.announced.get_mut(name) {
            announced.is_fresh = false;
            announced.exhausted_is_fresh = false;
        }
    }

    fn alert(
        &mut self,
        name: &Name,
        event_type: &str,
        threshold: i128,
        direction: &str,
        ledger: ModelLedger,
    ) {
        let (tenant, scope, unit) = name;
        let line = format!(
            "{event_type} {threshold} {direction} {}",
            ledger.remaining()
        );
        self.alerts.push((*tenant, format!("{scope} {unit}"), line));
    }
}

/// Moves the times of what a ledger has announced, in Redis into the past or the future, which both count as old.
pub async fn age(fixture: &LedgerFixture, model: &mut Model, which: usize, to_future: bool) {
    let mut names: Vec<_> = model.announced.keys().cloned().collect();
    names.sort();
    let Some(name) = names.get(which % names.len().max(1)) else {
        return;
    };
    let caller = &fixture.callers[name.0];
    let (tenant, unit) = (caller.tenant.as_str(), name.2.as_str());
    let key = fixture
        .store
        .keys()
        .budget(caller.partition, tenant, unit, &name.1);
    let stored: Option<String> = fixture.run(&["HGET", &key, "announced"]).await;
    let at_ms = if to_future { 4_102_444_800_000 } else { 1_000 };
    let announced = announced_at(&stored.unwrap_or_default(), at_ms);
    fixture.set(&key, &[("announced", &announced)]).await;
    model.age(name);
}

/// The alerts that the last step emitted, ledger by ledger.
pub async fn compare_alerts(fixture: &LedgerFixture, model: &mut Model) -> Result<(), String> {
    let mut found = Vec::new();
    for (tenant, caller) in fixture.callers.iter().enumerate() {
        let from = model
            .seen_events
            .entry(tenant)
            .or_insert_with(|| "-".to_owned());
        let mut entries = Vec::new();
        for day in days_around(&fixture.store) {
            let keys = fixture.store.keys();
            let log = keys.events(caller.partition, caller.tenant.as_str(), day);
            entries.extend(fixture.entries_from(&log, from).await);
        }
        for (id, event) in entries {
            *from = format!("({id}");
            let is_alert =
                ["budget.threshold_crossed", "budget.exhausted"].contains(&event["type"].as_str());
            if is_alert {
                let ledger = format!("{} {}", event["scope"], event["data.unit"]);
                let line = FACTS.map(|name| event[name].as_str()).join(" ");
                found.push((tenant, ledger, line));
            }
        }
    }
    let mut expected = std::mem::take(&mut model.alerts);
    // The sort is stable, so the events of one ledger stay in their order.
    let by_ledger = |(tenant, ledger, _): &(usize, String, String)| (*tenant, ledger.clone());
    found.sort_by_key(by_ledger);
    expected.sort_by_key(by_ledger);
    match found == expected {
        true => Ok(()),
        false => Err(format!("alerts {found:?}, the model says {expected:?}")),
    }
}
