//! `bench --limits`: a well-behaved tenant alone, and beside one that goes to every limit.
//!
//! Each attack runs twice. In quiet, one request at a time, it shows what its scripts cost: then a script that takes long
//! does not merely wait for a processor. Beside the well-behaved tenant, by many clients at once, it shows what it costs
//! others.

mod attack;
mod hostile;
mod report;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::args::{BenchArgs, LoadArgs, Workload};
use super::error::BenchError;
use super::ledger::Totals;
use super::load::{self, on_one_thread};
use super::recorder::Summary;
use super::service::Tenant;
use super::stack::Stack;
use crate::tools::client_error::CallError;
use attack::Attack;
use hostile::Hostile;
use report::{Beside, Limits, Quiet, Row, Slow};

/// Clients of the well-behaved tenant.
const CLIENTS: u16 = 4;

/// Clients of the hostile one.
const HOSTILE_CLIENTS: u64 = 8;

/// Strikes in quiet, unless the time is over before.
const STRIKES: u64 = 200;

/// A script may take this long.
const SCRIPT_LIMIT: Duration = Duration::from_millis(1);

/// How long the dispatcher may take for what the hostile tenant has made.
const CATCH_UP: Duration = Duration::from_secs(3);

/// Starts a Redis, a service and a dispatcher, and measures both tenants.
pub(super) async fn run(args: &BenchArgs) -> Result<Limits, BenchError> {
    let stack = Stack::start(args.dialect).await?;
    let _dispatcher = stack.dispatcher()?;
    let tenant = stack.service.provision(args.load.scopes).await?;
    let hostile = Arc::new(Hostile::prepare(&stack).await?);
    sleep(CATCH_UP).await;
    let load = LoadArgs {
        workload: Workload::Mixed,
        clients: CLIENTS,
        ..args.load.clone()
    };
    let mut bench = Bench {
        stack: &stack,
        tenant: &tenant,
        hostile,
        load,
        totals: Totals::default(),
        errors: 0,
    };
    let mut alone = vec![bench.well_behaved().await?];
    let mut rows = Vec::new();
    for &attack in Attack::ALL {
        eprintln!("{attack}");
        rows.push(Row {
            attack: attack.as_str(),
            is_bounded: attack.is_bounded(),
            quiet: bench.quiet(attack).await?,
            beside: bench.beside(attack).await?,
        });
        alone.push(bench.well_behaved().await?);
    }
    Ok(Limits {
        errors: bench.errors,
        differences: stack.service.check(&tenant, &bench.totals).await?,
        alone,
        rows,
    })
}

struct Bench<'a> {
    stack: &'a Stack,
    tenant: &'a Tenant,
    hostile: Arc<Hostile>,
    load: LoadArgs,
    /// What the well-behaved tenant has done, and how many of its requests failed.
    totals: Totals,
    errors: u64,
}

impl Bench<'_> {
    /// Runs the load of the well-behaved tenant.
    async fn well_behaved(&mut self) -> Result<Summary, BenchError> {
        let measured = load::run(&self.stack.service, self.tenant, &self.load, false).await?;
        let recorder = measured.recorder;
        self.totals.add(&recorder.totals);
        self.errors += recorder.failed + recorder.unresolved + recorder.wrong;
        let summaries = recorder.summaries(measured.elapsed);
        Ok(summaries.last().cloned().unwrap_or_default())
    }

    /// Strikes one after the other.
    async fn quiet(&self, attack: Attack) -> Result<Quiet, BenchError> {
        let store = &self.stack.store;
        store.watch_slow_calls(SCRIPT_LIMIT).await?;
        store.reset_statistics().await?;
        let (begun, mut count) = (Instant::now(), Strikes::default());
        for number in 0..STRIKES {
            count.add(attack, attack.strike(&self.hostile, number).await);
            if begun.elapsed() > self.load.duration {
                break;
            }
        }
        let spent = store.statistics().await?.command("evalsha");
        Ok(Quiet {
            redis_us: spent.us as f64 / count.all().max(1) as f64,
            slow: Slow::by_name(store.slow_calls().await?),
            strikes: count,
        })
    }

    /// The well-behaved tenant's load while the hostile one strikes all the time.
    async fn beside(&mut self, attack: Attack) -> Result<Beside, BenchError> {
        let (hostile, ended) = (Arc::clone(&self.hostile), Arc::new(AtomicBool::new(false)));
        let until = Arc::clone(&ended);
        let striking =
            on_one_thread(async move || Ok(strike_until(attack, &hostile, &until).await));
        let load = async {
            let measured = self.well_behaved().await;
            ended.store(true, Ordering::Relaxed);
            measured
        };
        let (strikes, calls) = tokio::try_join!(striking, load)?;
        Ok(Beside { calls, strikes })
    }
}

/// How strikes ended.
#[derive(Debug, Clone, Default, serde::Serialize)]
struct Strikes {
    done: u64,
    /// Refused with 429.
    limited: u64,
    failed: u64,
    first_failure: Option<String>,
}

impl Strikes {
    fn all(&self) -> u64 {
        self.done + self.limited + self.failed
    }

    fn add(&mut self, attack: Attack, outcome: Result<(), CallError>) {
        match outcome {
            Ok(()) => self.done += 1,
            Err(CallError::Refused(refusal)) if attack.expects(refusal.status) => self.done += 1,
            Err(CallError::Refused(refusal)) if refusal.status == 429 => self.limited += 1,
            Err(error) => {
                self.failed += 1;
                self.first_failure.get_or_insert_with(|| error.to_string());
            }
        }
    }

    fn join(&mut self, other: Self) {
        self.done += other.done;
        self.limited += other.limited;
        self.failed += other.failed;
        self.first_failure = self.first_failure.take().or(other.first_failure);
    }
}

/// Strikes with many clients until it has ended.
async fn strike_until(attack: Attack, hostile: &Arc<Hostile>, ended: &Arc<AtomicBool>) -> Strikes {
    let mut clients = JoinSet::new();
    for client in 0..HOSTILE_CLIENTS {
        let (hostile, ended) = (Arc::clone(hostile), Arc::clone(ended));
        clients.spawn(async move {
            let mut strikes = Strikes::default();
            // Behind the numbers of the strikes in quiet.
            let mut number = STRIKES.next_multiple_of(HOSTILE_CLIENTS) + client;
            while !ended.load(Ordering::Relaxed) {
                strikes.add(attack, attack.strike(&hostile, number).await);
                number += HOSTILE_CLIENTS;
            }
            strikes
        });
    }
    let mut strikes = Strikes::default();
    while let Some(client) = clients.join_next().await {
        strikes.join(client.expect("striking does not panic"));
    }
    strikes
}
