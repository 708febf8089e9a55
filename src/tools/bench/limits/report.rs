//! What a hostile tenant costs others.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Strikes;
use crate::store::tools::slow::SlowCall;
use crate::tools::bench::ledger::{Difference, disagreement};
use crate::tools::bench::recorder::Summary;
use crate::tools::bench::report::{BenchReport, time};
use crate::tools::table::Table;

/// The well-behaved tenant's p99 beside an attack may be so many times that of its own alone.
const RATIO_MAX: f64 = 1.5;

/// Of so many strikes in quiet, one may have a script that takes long: a shared machine interrupts even a quiet Redis.
const SLOW_SHARE: u64 = 20;

/// All figures of one run.
#[derive(Debug, Serialize)]
pub(in crate::tools::bench) struct Limits {
    /// The well-behaved tenant alone: first, and after each attack.
    pub alone: Vec<Summary>,
    pub(super) rows: Vec<Row>,
    /// Requests of the well-behaved tenant that failed.
    pub errors: u64,
    /// Ledgers of the well-behaved tenant whose figures are not the totals of its responses.
    pub differences: Vec<Difference>,
}

/// One attack.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    pub attack: &'static str,
    /// Whether the ratio has a bound.
    pub is_bounded: bool,
    pub quiet: Quiet,
    pub beside: Beside,
}

/// One strike after the other.
#[derive(Debug, Serialize)]
pub(super) struct Quiet {
    pub strikes: Strikes,
    /// Time of Redis's one thread for the scripts of one strike.
    pub redis_us: f64,
    /// Scripts that took longer than a script may.
    pub slow: BTreeMap<&'static str, Slow>,
}

/// Calls of one script that took too long.
#[derive(Debug, Default, Serialize)]
pub(super) struct Slow {
    pub calls: u64,
    pub most_us: u64,
}

/// The well-behaved tenant beside the attack.
#[derive(Debug, Serialize)]
pub(super) struct Beside {
    pub calls: Summary,
    pub strikes: Strikes,
}

impl Slow {
    /// Slow calls by the name of the script.
    pub fn by_name(calls: Vec<SlowCall>) -> BTreeMap<&'static str, Self> {
        let mut slow = BTreeMap::<_, Self>::new();
        for call in calls {
            let of_script = slow.entry(call.script).or_default();
            of_script.calls += 1;
            of_script.most_us = of_script.most_us.max(call.us);
        }
        slow
    }
}

impl Quiet {
    fn is_slow(&self) -> bool {
        let mut slow = self.slow.values();
        slow.any(|slow| slow.calls * SLOW_SHARE > self.strikes.all())
    }
}

impl Limits {
    /// The p99 of the well-behaved tenant alone, just before and just after an attack.
    fn alone_us(&self, attack: usize) -> f64 {
        let around = &self.alone[attack..attack + 2];
        around.iter().map(|calls| calls.p99_us).sum::<f64>() / 2.0
    }

    fn ratio(&self, attack: usize) -> f64 {
        self.rows[attack].beside.calls.p99_us / self.alone_us(attack)
    }
}

impl BenchReport for Limits {
    fn is_well(&self, _max_error_rate: f64) -> bool {
        let is_well = |(at, row): (usize, &Row)| {
            let failed = row.quiet.strikes.failed + row.beside.strikes.failed;
            let costs_little = !row.is_bounded || self.ratio(at) <= RATIO_MAX;
            failed == 0 && !row.quiet.is_slow() && costs_little
        };
        let agrees = self.errors == 0 && self.differences.is_empty();
        agrees && self.rows.iter().enumerate().all(is_well)
    }

    fn text(&self) -> String {
        let headings = "attack, in Redis, over 1 ms, strikes, limited, p99 alone, beside, ratio";
        let mut table = Table::new(1, headings.split(", "));
        let mut notes = String::new();
        for (at, row) in self.rows.iter().enumerate() {
            let (quiet, beside, attack) = (&row.quiet, &row.beside, row.attack);
            let slow = quiet.slow.values().map(|slow| slow.calls).sum::<u64>();
            table.row([
                attack.to_owned(),
                time(quiet.redis_us),
                format!("{slow} of {}", quiet.strikes.all()),
                beside.strikes.all().to_string(),
                beside.strikes.limited.to_string(),
                time(self.alone_us(at)),
                time(beside.calls.p99_us),
                format!("{:.2}", self.ratio(at)),
            ]);
            for (script, Slow { calls, most_us }) in &quiet.slow {
                let most = time(*most_us as f64);
                notes +=
                    &format!("{attack}: {script} took over 1 ms {calls} times, {most} at most\n");
            }
            for strikes in [&quiet.strikes, &beside.strikes] {
                if let Some(failure) = &strikes.first_failure {
                    notes += &format!(
                        "{attack}: {} strikes failed, first: {failure}\n",
                        strikes.failed
                    );
                }
            }
        }
        if self.errors > 0 {
            notes += &format!(
                "{} requests of the well-behaved tenant failed\n",
                self.errors
            );
        }
        format!(
            "{table}\n{notes}{}",
            disagreement("ledger", &self.differences)
        )
    }
}
