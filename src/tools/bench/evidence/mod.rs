//! `bench --evidence`: what signed evidence costs, and how soon it can be read.
//!
//! Two services share a private Redis, one with evidence and one without. They are measured in rounds, because the figures of a
//! shared machine vary from minute to minute.

mod report;
mod reserving;
mod rounds;
mod signing;

use std::time::Duration;

use tokio::time::sleep;

use super::args::BenchArgs;
use super::connection::Connection;
use super::error::BenchError;
use super::ledger::Totals;
use super::memory::{keys, memory};
use super::recorder::summary;
use super::service::Tenant;
use super::stack::{Settings, Stack};
use crate::config::StoreConfig;
use crate::store::{Keys, Store, StoreError};
use report::EvidenceReport;
use reserving::{Plan, Reserved, Target, envelope_request, reserve};
use rounds::Side;
use signing::{Dispatcher, Signed, key_settings};

/// For which `--duration` the numbers below are.
const FULL: Duration = Duration::from_secs(10);
/// Entries of the backlog, and the tenants that they are of.
const BACKLOG: f64 = 50_000.0;
const TENANTS: usize = 64;
/// Reserves a second while it is measured how soon envelopes can be read, and of how many of them one is watched.
const PACE: f64 = 1_000.0;
const WATCHED: usize = 10;
/// Envelopes that are read while the commands are counted.
const READS: usize = 200;
/// How long a dispatcher takes to work off what is not evidence.
const QUIET_AFTER: Duration = Duration::from_secs(2);

/// Starts a Redis, two services and dispatchers, and measures.
pub(super) async fn run(args: &BenchArgs) -> Result<EvidenceReport, BenchError> {
    let off = Stack::start(args.dialect).await?;
    let (settings, seed) = key_settings();
    let deployment = StoreConfig {
        keys: Keys::new("bb").expect("a prefix"),
        ..off.deployment.clone()
    };
    let on = Stack::start_service_with(deployment, settings).await?;
    let mut bench = Bench {
        load: &args.load,
        dispatcher: vec![seed],
        off: Side::new(&off, args.load.scopes).await?,
        on: Side::new(&on, args.load.scopes).await?,
        report: EvidenceReport::default(),
    };
    bench.rounds().await?;
    bench.one_tenant().await?;
    bench.many_tenants().await?;
    Ok(bench.report)
}

struct Bench<'a> {
    load: &'a super::args::LoadArgs,
    /// Settings of dispatchers alone.
    dispatcher: Settings,
    off: Side<'a>,
    on: Side<'a>,
    report: EvidenceReport,
}

impl Bench<'_> {
    fn share(&self) -> f64 {
        self.load.duration.as_secs_f64() / FULL.as_secs_f64()
    }

    fn store(&self) -> &Store {
        &self.on.stack.store
    }

    async fn used_memory(&self) -> Result<f64, StoreError> {
        Ok(self.store().statistics().await?.used_memory as f64)
    }

    /// Signs the entries of the rounds, which are all of one tenant, and measures what is stored for them.
    async fn one_tenant(&mut self) -> Result<(), BenchError> {
        let queued = self.on.queued;
        let streams = keys(self.store(), "unsigned").await?;
        let entries = memory(self.store(), &streams).await? as f64 / queued.max(1) as f64;
        let before = self.used_memory().await?;
        let (signed, dispatcher) = self.sign(queued).await?;
        let envelopes = (self.used_memory().await? - before) / signed.count.max(1) as f64;
        drop(dispatcher);
        let rows = &mut self.report.rows;
        rows.at_least(
            "signing by one dispatcher, one tenant",
            signed.per_second,
            "envelopes/s",
            10_000.0,
        );
        rows.figure("memory of an entry until it is signed", entries, "bytes");
        rows.figure("memory of an envelope", envelopes, "bytes");
        // Another dispatcher would sign them again: they stay for a minute.
        for stream in streams {
            let mut delete = redis::cmd("DEL");
            delete.arg(&stream);
            self.store().query(&stream, &delete).await?;
        }
        Ok(())
    }

    /// Signs a backlog of many tenants; afterwards, how soon envelopes can be read at a steady pace.
    async fn many_tenants(&mut self) -> Result<(), BenchError> {
        let stack = self.on.stack;
        let (mut tenants, mut targets) = (Vec::new(), Vec::new());
        for _ in 0..TENANTS {
            let tenant = stack.service.provision(self.load.scopes).await?;
            targets.push(Target::new(&stack.service, &tenant, self.load.scopes)?);
            tenants.push((tenant, Totals::default()));
        }
        let backlog = Plan {
            each: ((BACKLOG * self.share()) as usize / TENANTS).max(5),
            every: None,
            watched: None,
        };
        let queued = reserve(&targets, backlog).await?.taken(self, &mut tenants);
        let (signed, dispatcher) = self.sign(queued.finished).await?;
        self.report.rows.at_least(
            "signing by one dispatcher, 64 tenants",
            signed.per_second,
            "envelopes/s",
            10_000.0,
        );
        sleep(QUIET_AFTER).await;
        let paced = Plan {
            each: ((PACE * self.load.duration.as_secs_f64()) as usize / TENANTS).max(2 * WATCHED),
            every: Some(Duration::from_secs_f64(TENANTS as f64 / PACE)),
            watched: Some(WATCHED),
        };
        let paced = reserve(&targets, paced).await?.taken(self, &mut tenants);
        drop(dispatcher);
        let delays = summary("readable", &paced.delays, self.load.duration);
        let rows = &mut self.report.rows;
        rows.figure("reserves at a steady pace", paced.per_second, "/s");
        let (p50, p99) = (delays.p50_us / 1e3, delays.p99_us / 1e3);
        rows.figure("from the response to the envelope, p50", p50, "ms");
        rows.at_most("from the response to the envelope, p99", p99, "ms", 1_000.0);
        // Its Redis is that of the stack which started it.
        let round_trips = read(self.off.stack, &targets[0], paced.watched).await?;
        self.report.rows.at_most(
            "round trips to Redis per envelope read",
            round_trips,
            "",
            1.0,
        );
        for (tenant, totals) in &tenants {
            self.check(stack, tenant, totals).await?;
        }
        Ok(())
    }

    /// Starts a dispatcher, and waits until it has signed so many entries.
    async fn sign(&mut self, entries: u64) -> Result<(Signed, Dispatcher), BenchError> {
        let mut dispatcher = Dispatcher::start(self.on.stack, self.dispatcher.clone())?;
        let signed = dispatcher.sign(entries).await;
        self.report.missing += entries.saturating_sub(signed.count);
        Ok((signed, dispatcher))
    }

    async fn check(
        &mut self,
        stack: &Stack,
        tenant: &Tenant,
        totals: &Totals,
    ) -> Result<(), BenchError> {
        let differences = stack.service.check(tenant, totals).await?;
        self.report.differences.extend(differences);
        Ok(())
    }
}

impl Reserved {
    /// Itself, once its failures and effects are noted.
    fn taken(self, bench: &mut Bench<'_>, tenants: &mut [(Tenant, Totals)]) -> Self {
        for ((_, totals), added) in tenants.iter_mut().zip(&self.totals) {
            totals.add(added);
        }
        bench.report.failed(self.failed, self.first_failure.clone());
        bench.report.missing += self.missing;
        self
    }
}

/// Commands that the target's service sends to the private Redis of `stack` for each of these envelopes.
async fn read(stack: &Stack, target: &Target, ids: Vec<String>) -> Result<f64, BenchError> {
    let mut connection = Connection::new(target.url());
    let reads = async || {
        let mut count = 0;
        for id in ids.iter().take(READS) {
            let request = envelope_request(target, id);
            let response = connection.send(request).await;
            count += u64::from(response.is_ok_and(|response| response.status.is_success()));
        }
        Ok(count)
    };
    stack.commands_per_request(reads).await
}
