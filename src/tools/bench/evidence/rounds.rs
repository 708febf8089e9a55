//! The services in rounds: what evidence costs whoever reserves.

use std::time::Duration;

use serde::Serialize;

use super::Bench;
use crate::tools::bench::args::{LoadArgs, Workload};
use crate::tools::bench::error::BenchError;
use crate::tools::bench::ledger::Totals;
use crate::tools::bench::load;
use crate::tools::bench::recorder::Recorder;
use crate::tools::bench::script::Script;
use crate::tools::bench::service::Tenant;
use crate::tools::bench::stack::Stack;

/// Rounds of each service; they share twice `--duration`.
const ROUNDS: u32 = 8;
/// Clients of the rounds.
const CLIENTS: u16 = 50;
/// Part of a round's time in which the script is called without HTTP.
const BARE: f64 = 0.4;

/// One of the two services.
pub(super) struct Side<'a> {
    pub stack: &'a Stack,
    pub tenant: Tenant,
    totals: Totals,
    /// Successes, each of which queues an entry where evidence is on.
    pub queued: u64,
}

/// One round of one service.
#[derive(Debug, Serialize)]
pub(super) struct Round {
    pub evidence: &'static str,
    pub per_second: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    /// Time that one call of the script takes of Redis's one thread, without HTTP.
    pub redis_us_per_call: f64,
    /// Memory of Redis for what one reserve stores, in bytes.
    pub bytes: f64,
}

/// The script, called without HTTP for a tenant whose evidence nobody signs.
struct Bare<'a> {
    stack: &'a Stack,
    tenant: Tenant,
    totals: Totals,
}

impl Bare<'_> {
    /// Reserves for so long. Returns the time that one call takes of Redis's one thread, in microseconds.
    async fn run(&mut self, attested: bool, limit: Duration) -> Result<f64, BenchError> {
        let script = Script::Reserve {
            count: usize::MAX,
            limit,
            attested,
        };
        let run = self.stack.run_script(&self.tenant, CLIENTS, script).await?;
        self.totals.add(&run.totals);
        Ok(run.redis_us_per_call)
    }
}

impl<'a> Side<'a> {
    pub async fn new(stack: &'a Stack, scopes: u8) -> Result<Self, BenchError> {
        Ok(Self {
            tenant: stack.service.provision(scopes).await?,
            stack,
            totals: Totals::default(),
            queued: 0,
        })
    }

    /// Runs a load. Returns what it did, and the memory of Redis that it took.
    async fn run(&mut self, load: &LoadArgs) -> Result<(load::Measured, f64), BenchError> {
        let store = &self.stack.store;
        let before = store.statistics().await?.used_memory as f64;
        store.reset_statistics().await?;
        let measured = load::run(&self.stack.service, &self.tenant, load, false).await?;
        let after = store.statistics().await?.used_memory as f64;
        self.totals.add(&measured.recorder.totals);
        self.queued += measured.recorder.finished;
        Ok((measured, after - before))
    }

    async fn round(
        &mut self,
        evidence: &'static str,
        load: &LoadArgs,
        bare: &mut Bare<'_>,
    ) -> Result<(Round, Recorder), BenchError> {
        let (measured, bytes) = self.run(load).await?;
        let (recorder, elapsed) = (measured.recorder, measured.elapsed);
        let calls = recorder.summaries(elapsed).pop().unwrap_or_default();
        let round = Round {
            evidence,
            per_second: calls.per_second,
            p50_us: calls.p50_us,
            p99_us: calls.p99_us,
            redis_us_per_call: bare
                .run(evidence == "on", load.duration.mul_f64(BARE))
                .await?,
            bytes: bytes / recorder.finished.max(1) as f64,
        };
        Ok((round, recorder))
    }
}

impl Bench<'_> {
    /// Reserves in rounds, then commits; no dispatcher runs.
    pub(super) async fn rounds(&mut self) -> Result<(), BenchError> {
        let time = self.load.duration / ROUNDS;
        let reserves = LoadArgs {
            workload: Workload::Reserve,
            clients: CLIENTS,
            duration: time,
            warmup: (time / 10).min(self.load.warmup),
            ..self.load.clone()
        };
        let commits = LoadArgs {
            workload: Workload::Commit,
            duration: self.load.duration / 4,
            warmup: Duration::ZERO,
            ..reserves.clone()
        };
        let stack = self.off.stack;
        let mut bare = Bare {
            tenant: stack.service.provision(self.load.scopes).await?,
            totals: Totals::default(),
            stack,
        };
        for number in 0..ROUNDS {
            let mut sides = [(&mut self.off, "off"), (&mut self.on, "on")];
            if number % 2 == 1 {
                sides.reverse();
            }
            for (side, evidence) in sides {
                let (round, recorder) = side.round(evidence, &reserves, &mut bare).await?;
                self.report.noted(&recorder);
                self.report.rounds.push(round);
            }
        }
        let mut committed = Vec::new();
        for side in [&mut self.off, &mut self.on] {
            let (measured, bytes) = side.run(&commits).await?;
            self.report.noted(&measured.recorder);
            // A client alternately reserves and commits.
            committed.push(bytes / (measured.recorder.finished / 2).max(1) as f64);
        }
        self.compare(&committed);
        let sides = [&self.off, &self.on];
        let sides = sides.map(|side| (side.stack, &side.tenant, &side.totals));
        for (stack, tenant, totals) in
            sides
                .into_iter()
                .chain([(stack, &bare.tenant, &bare.totals)])
        {
            let differences = stack.service.check(tenant, totals).await?;
            self.report.differences.extend(differences);
        }
        Ok(())
    }

    /// Adds the figures with evidence beside those without. A machine that is busy for a while spoils few rounds, so medians say
    /// most.
    fn compare(&mut self, committed: &[f64]) {
        let rounds = &self.report.rounds;
        let of = |evidence: &str, figure: fn(&Round) -> f64| {
            let of_side = rounds.iter().filter(|round| round.evidence == evidence);
            of_side.map(figure).collect::<Vec<_>>()
        };
        let both = |figure| (of("off", figure), of("on", figure));
        let (rates_off, rates_on) = both(|round| round.per_second);
        let (us_off, us_on) = both(|round| round.redis_us_per_call);
        let (bytes_off, bytes_on) = both(|round| round.bytes);
        let pairs = |off: &[f64], on: &[f64], compared: fn(f64, f64) -> f64| {
            let pairs = off.iter().zip(on);
            median(pairs.map(|(off, on)| compared(*off, *on)).collect())
        };
        let ratio = pairs(&rates_off, &rates_on, |off, on| on / off.max(1.0));
        let more_us = pairs(&us_off, &us_on, |off, on| on - off);
        let rows = &mut self.report.rows;
        rows.figure("reserves, evidence off", median(rates_off), "/s");
        rows.figure("reserves, evidence on", median(rates_on), "/s");
        rows.at_least("reserves, on against off", ratio, "", 0.85);
        rows.figure("reserve script, evidence off", median(us_off), "µs");
        rows.at_most("reserve script, on more than off", more_us, "µs", 5.0);
        let (off, on) = (median(bytes_off), median(bytes_on));
        rows.figure("memory of a reservation, off", off, "bytes");
        rows.figure("memory of a reservation and its entry, on", on, "bytes");
        rows.figure("memory once committed, off", committed[0], "bytes");
        let on = "memory once committed, with both entries, on";
        rows.figure(on, committed[1], "bytes");
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let half = figures.len() / 2;
    match figures.len() % 2 {
        _ if figures.is_empty() => 0.0,
        1 => figures[half],
        _ => (figures[half - 1] + figures[half]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_in_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 100.0]), 3.0);
        assert_eq!(median(Vec::new()), 0.0);
    }
}
