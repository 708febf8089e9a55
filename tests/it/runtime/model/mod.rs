//! Random histories against Redis and against a simple pure model: every reply, and every ledger and alert after each step.

pub(super) mod alerts;
pub(super) mod draw;
mod finish;
mod funding;
mod operator;
mod operator_steps;
mod plan_steps;
mod plan_time;
pub(super) mod plans;
pub(super) mod policies;
mod predictions;
pub(super) mod pure;
mod refund;
pub(super) mod requests;
pub(super) mod sides;
pub(super) mod steps;
mod templates;
mod usage;

use std::time::{Duration, Instant};

use budget_authority::tools::verify::verify;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::harness::ledger_fixture::LedgerFixture;
use draw::{Step, history};

#[test]
fn every_reply_and_ledger_matches_the_model() {
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
    let result = TestRunner::new(config).run(&history(), |steps: Vec<Step>| {
        runtime.block_on(async {
            let fixture = LedgerFixture::new().await;
            let mut model = pure::Model::new(&fixture);
            let started = Instant::now();
            for (number, step) in steps.iter().enumerate() {
                // The model ages announcements by steps alone; in Redis they are old after ten seconds.
                if started.elapsed() > Duration::from_secs(5) {
                    break;
                }
                if let Err(difference) = steps::run(&fixture, &mut model, step, number).await {
                    return Err(TestCaseError::fail(format!(
                        "step {number} {step:?}: {difference}"
                    )));
                }
            }
            let report = verify(&fixture.store, None, |_| {})
                .await
                .expect("Redis answers");
            match report.is_right() {
                true => Ok(()),
                false => Err(TestCaseError::fail(report.table(true))),
            }
        })
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}
