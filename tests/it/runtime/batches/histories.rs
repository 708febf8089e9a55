//! The histories of the property test of `runtime/model`, in batches. The members of a batch do what the model does in the same
//! order, one after the other; those whose calls were made again did it later.

use std::time::{Duration, Instant};

use budget_authority::domain::reservation::Status;
use budget_authority::tools::verify::verify;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::calls::attesting;
use super::together::{Batch, Call, repeated, together, two_tenants_of_a_partition};
use crate::harness::ledger_fixture::LedgerFixture;
use crate::harness::redis::shared;
use crate::runtime::model::alerts::compare_alerts;
use crate::runtime::model::draw::{Step, groups};
use crate::runtime::model::pure::{Model, Outcome};
use crate::runtime::model::requests::Request;
use crate::runtime::model::sides::compare;
use crate::runtime::model::steps;

/// Orders that are tried for a batch with calls that were made again.
const ORDERS_MAX: usize = 20_000;

#[test]
fn a_batch_does_what_its_members_do_one_after_the_other() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let cases = std::env::var("MODEL_CASES")
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(96);
    let config = Config {
        cases,
        max_shrink_iters: 400,
        failure_persistence: None,
        ..Config::default()
    };
    let result = TestRunner::new(config).run(&groups(), |groups: Vec<Vec<Step>>| {
        runtime
            .block_on(history(&groups))
            .map_err(TestCaseError::fail)
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

async fn history(groups: &[Vec<Step>]) -> Result<(), String> {
    let mut fixture = two_tenants_of_a_partition(&shared().url()).await;
    let attests = groups.len().is_multiple_of(2);
    if attests {
        fixture.ledger = attesting(fixture.ledger.clone());
    }
    let mut model = Model::new(&fixture);
    let started = Instant::now();
    for (number, group) in groups.iter().enumerate() {
        // The model ages announcements by steps alone; in Redis they are old after ten seconds.
        if started.elapsed() > Duration::from_secs(5) {
            break;
        }
        let done = match batch_of(&group[0]) {
            Some(batch) => run_batch(&fixture, &mut model, batch, group).await,
            None => steps::run(&fixture, &mut model, &group[0], number).await,
        };
        done.map_err(|difference| format!("group {number} {group:?}: {difference}"))?;
    }
    if attests {
        let unsigned = fixture.store.keys().unsigned(fixture.callers[0].partition);
        let entries: i64 = fixture.run(&["XLEN", &unsigned]).await;
        // Those that ended with their tenant have no request that did it.
        let reservations = model.reservation_of.values();
        let ends = reservations.filter(|index| model.held[**index].finish.is_some());
        let least = model.reservation_of.len() + ends.count();
        assert!(
            entries >= least as i64,
            "{entries} entries of evidence, not {least}"
        );
    }
    let report = verify(&fixture.store, None, |_| {}).await;
    let report = report.expect("Redis answers");
    match report.is_right() {
        true => Ok(()),
        false => Err(report.table(true)),
    }
}

fn batch_of(step: &Step) -> Option<Batch> {
    match step {
        Step::Reserve { .. } | Step::Decide { .. } | Step::Post { .. } => Some(Batch::Create),
        Step::Commit { .. } | Step::Release { .. } | Step::Extend { .. } => Some(Batch::Change),
        _ => None,
    }
}

async fn run_batch(
    fixture: &LedgerFixture,
    model: &mut Model,
    batch: Batch,
    group: &[Step],
) -> Result<(), String> {
    let mut requests = Vec::new();
    for step in group {
        requests.extend(Request::of(fixture, model, step).await);
    }
    if requests.is_empty() {
        return Ok(());
    }
    let before = repeated(fixture);
    let calls = requests
        .iter()
        .map(|request| Box::pin(request.respond()) as Call<'_, Outcome>);
    let responses = together(fixture, batch, calls.collect()).await;
    let mut orders = Orders {
        requests: &requests,
        responses: &responses,
        is_any: repeated(fixture) != before,
        tried: 0,
        difference: String::new(),
    };
    let rest: Vec<_> = (0..requests.len()).collect();
    match Box::pin(orders.find(fixture, model.clone(), &rest)).await {
        Some(found) => {
            *model = found;
            Ok(())
        }
        None => Err(format!("{responses:?}: {}", orders.difference)),
    }
}

/// Finds an order of requests in which the model does what the service has done.
struct Orders<'a> {
    requests: &'a [Request<'a>],
    responses: &'a [Outcome],
    /// Whether it may be another order than that of the requests.
    is_any: bool,
    tried: usize,
    /// What differed first.
    difference: String,
}

impl Orders<'_> {
    /// The model after the rest of the requests; none if there is no such order.
    async fn find(
        &mut self,
        fixture: &LedgerFixture,
        model: Model,
        rest: &[usize],
    ) -> Option<Model> {
        if rest.is_empty() {
            let mut tried = model.clone();
            let compared = match compare(fixture, &tried).await {
                Ok(()) => compare_alerts(fixture, &mut tried).await,
                differs => differs,
            };
            match compared {
                Ok(()) => return Some(tried),
                Err(difference) => self.differs(difference),
            }
        }
        let choices = if self.is_any { rest.len() } else { 1 };
        for &next in rest.iter().take(choices) {
            self.tried += 1;
            if self.tried > ORDERS_MAX {
                return None;
            }
            let mut tried = model.clone();
            let expected = self.requests[next].expected(&mut tried);
            if expected != self.responses[next] {
                self.differs(format!("request {next}, the model says {expected:?}"));
                continue;
            }
            let rest: Vec<_> = rest.iter().copied().filter(|it| *it != next).collect();
            let found = Box::pin(self.find(fixture, tried, &rest)).await;
            if found.is_some() {
                return found;
            }
        }
        // A request lacked funds, and when dead holds had returned them, another one had the same key or had made them enough.
        let tenants = if self.is_any { 0..2 } else { 0..0 };
        for tenant in tenants.filter(|tenant| has_dead_holds(&model, *tenant)) {
            let mut swept = model.clone();
            swept.sweep(tenant);
            let found = Box::pin(self.find(fixture, swept, rest)).await;
            if found.is_some() {
                return found;
            }
        }
        // A request's templates made budgets, and before it ran again, another one met them.
        let creating = if self.is_any { rest } else { &[] };
        for &next in creating {
            for created in self.requests[next].creations(&model) {
                let found = Box::pin(self.find(fixture, created, rest)).await;
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    fn differs(&mut self, difference: String) {
        if self.difference.is_empty() {
            self.difference = difference;
        }
    }
}

fn has_dead_holds(model: &Model, tenant: usize) -> bool {
    let mut held = model.held.iter();
    held.any(|it| it.tenant == tenant && it.dead && it.status == Status::Active)
}
