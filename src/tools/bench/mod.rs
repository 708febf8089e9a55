//! `budget-authority bench`: a load generator that checks the ledgers.
//!
//! It knows the service only by its protocol. It makes a tenant of its own, sends a mix of requests over keep-alive
//! connections, and reports rates and times. Afterwards the ledgers must agree with the responses, to the unit.

mod args;
mod bare;
mod client;
mod compare;
mod error;
#[cfg(test)]
mod fake;
mod growth;
mod ledger;
mod load;
mod monitor;
mod recorder;
mod report;
mod requests;
mod response;
mod script;
mod service;
mod session;
mod stack;

use std::process::ExitCode;
use std::sync::Arc;

pub use args::BenchArgs;

use error::BenchError;
use report::{BenchReport, Report};
use service::Service;

use crate::telemetry::error_chain;

/// Runs the benchmark and prints its report to standard output.
///
/// The exit code is 0 when all is well, 1 when a ledger disagrees with the responses or more requests failed than
/// `--max-error-rate` allows, and 2 when nothing could be measured; then the reason is on standard error.
pub async fn run(args: BenchArgs) -> ExitCode {
    match measure(&args).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("bench: {}", error_chain(&error));
            ExitCode::from(2)
        }
    }
}

/// Runs what `args` select; whether all is well.
async fn measure(args: &BenchArgs) -> Result<bool, BenchError> {
    args.refuse_too_long()?;
    Ok(if args.bare {
        print(&bare::run(args).await?, args)
    } else if args.compare {
        print(&compare::run(args).await?, args)
    } else if !args.compare_stored.is_empty() {
        print(&growth::with_reservations(args).await?, args)
    } else if !args.compare_listed.is_empty() {
        print(&growth::with_budgets(args).await?, args)
    } else if !args.compare_policies.is_empty() {
        print(&growth::with_policies(args).await?, args)
    } else {
        let runtime = Arc::new(args.url.clone());
        let admin = args.admin_url.clone().map(Arc::new);
        let service = Service {
            admin: admin.unwrap_or_else(|| Arc::clone(&runtime)),
            runtime,
            admin_key: args.admin_key.clone().ok_or(BenchError::NoAdminKey)?,
            dialect: args.dialect,
        };
        print(
            &Report::measure(&service, &args.load, args.progress).await?,
            args,
        )
    })
}

/// Prints a report; whether all is well.
fn print(report: &impl BenchReport, args: &BenchArgs) -> bool {
    match serde_json::to_string_pretty(report) {
        Ok(text) if args.json => println!("{text}"),
        _ => print!("{report}"),
    }
    report.is_well(args.max_error_rate)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use args::{LoadArgs, Workload};
    use fake::Fault;

    use super::*;
    use crate::tools::http::base_url;

    fn service_at(url: &str) -> Service {
        let url = Arc::new(base_url(url).expect("a URL"));
        Service {
            runtime: Arc::clone(&url),
            admin: url,
            admin_key: "admin".to_owned().into(),
            dialect: crate::domain::dialect::Dialect::Service,
        }
    }

    /// Runs a short load against a service with this fault.
    async fn measured(fault: Fault, workload: Workload) -> Report {
        let service = service_at(&format!("http://{}", fake::start(fault).await));
        let load = LoadArgs {
            clients: 4,
            duration: Duration::from_millis(150),
            warmup: Duration::from_millis(20),
            scopes: 3,
            workload,
        };
        let report = Report::measure(&service, &load, false).await;
        report.unwrap_or_else(|error| panic!("{}", error_chain(&error)))
    }

    #[tokio::test]
    async fn the_ledgers_of_a_good_service_agree_under_any_workload() {
        use Workload::{Commit, Decide, Event, Mixed, Release, Reserve};
        for workload in [Reserve, Commit, Release, Mixed, Decide, Event] {
            let report = measured(Fault::None, workload).await;
            assert!(report.ledger.agrees, "{report}");
            assert!(
                report.errors.is_empty() && report.error_rate == 0.0,
                "{report}"
            );
            let timed = |name: &str| {
                let mut operations = report.operations.iter();
                operations.any(|timed| timed.operation == name && timed.p50_us > 0.0)
            };
            for step in workload.steps() {
                assert!(timed(step.as_str()), "{report}");
            }
            assert!(timed("all"), "{report}");
        }
    }

    #[tokio::test]
    async fn a_lost_response_is_recovered_and_counted_once() {
        for fault in [Fault::LosesResponses, Fault::RespondsUnavailable] {
            let report = measured(fault, Workload::Mixed).await;
            assert!(report.ledger.agrees, "{fault:?}\n{report}");
            assert!(report.error_rate > 0.05, "{fault:?}\n{report}");
        }
    }

    #[tokio::test]
    async fn a_wrong_ledger_is_reported() {
        for fault in [Fault::ChargesReplays, Fault::LosesAUnit] {
            let report = measured(fault, Workload::Commit).await;
            // Three scopes, on both planes.
            assert_eq!(report.ledger.differences.len(), 6, "{fault:?}\n{report}");
            assert!(!report.ledger.agrees);
            assert!(report.to_string().contains("does NOT agree"));
        }
    }

    #[tokio::test]
    async fn a_refusal_is_an_error_but_no_difference() {
        let report = measured(Fault::Refuses, Workload::Mixed).await;
        assert!(report.ledger.agrees, "{report}");
        assert_eq!(report.errors[0].code, "BUDGET_EXCEEDED");
        assert!(report.error_rate > 0.05, "{report}");
    }

    #[tokio::test]
    async fn nothing_is_measured_without_a_service() {
        let service = service_at("http://127.0.0.1:1");
        let error = service.provision(1).await.expect_err("no service");
        let text = error_chain(&error);
        assert!(
            text.starts_with("making a tenant: the service cannot be reached: cannot connect: "),
            "{text}"
        );
    }
}
