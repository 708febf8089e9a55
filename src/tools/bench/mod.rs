//! `budget-authority bench`: a load generator that knows nothing of the service but its protocol, and keeps books.
//!
//! It makes a tenant of its own, sends a mix of requests over keep-alive connections, and says how many a second were
//! answered and how fast. Afterwards the ledgers must show, to the unit, what the answers said.

mod answer;
mod args;
mod bare;
mod client;
mod compare;
mod connection;
mod error;
#[cfg(test)]
mod fake;
mod ledger;
mod listed;
mod load;
mod monitor;
mod policed;
mod provision;
mod recorder;
mod report;
mod requests;
mod scaling;
mod script;
mod session;
mod stack;
mod stored;
mod table;
mod target;

use std::process::ExitCode;
use std::sync::Arc;

pub use args::BenchArgs;

use args::LoadArgs;
use error::BenchError;
use load::Measured;
use provision::{Service, Tenant};
use report::Report;

/// Runs the benchmark and prints its report to standard output.
///
/// The exit code is 0 when all is well, 1 when the ledgers differ from the answers or more requests failed than
/// `--max-error-rate` allows, and 2 when nothing could be measured; then the reason is on standard error.
pub async fn run(args: BenchArgs) -> ExitCode {
    match measure(&args).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("bench: {}", with_causes(&error));
            ExitCode::from(2)
        }
    }
}

/// Whether all is well.
async fn measure(args: &BenchArgs) -> Result<bool, BenchError> {
    args.refuse_too_long()?;
    if args.bare {
        let bare = bare::run(args).await?;
        print(&bare, args.json);
        return Ok(bare.is_well());
    }
    if args.compare {
        let comparison = compare::run(args).await?;
        print(&comparison, args.json);
        return Ok(comparison.is_well(args.max_error_rate));
    }
    if !args.compare_stored.is_empty() {
        let scaling = stored::run(args).await?;
        print(&scaling, args.json);
        return Ok(scaling.is_well(args.max_error_rate));
    }
    if !args.compare_listed.is_empty() {
        print(&listed::run(args).await?, args.json);
        return Ok(true);
    }
    if !args.compare_policies.is_empty() {
        let scaling = policed::run(args).await?;
        print(&scaling, args.json);
        return Ok(scaling.is_well(args.max_error_rate));
    }
    let runtime = Arc::new(args.url.clone());
    let admin = args.admin_url.clone().map(Arc::new);
    let service = Service {
        admin: admin.unwrap_or_else(|| Arc::clone(&runtime)),
        runtime,
        admin_key: args.admin_key.clone().ok_or(BenchError::NoAdminKey)?,
        dialect: args.dialect,
    };
    let report = run_load(&service, &args.load, args.progress).await?;
    print(&report, args.json);
    Ok(report.ledger.agrees && report.error_rate <= args.max_error_rate)
}

/// One run with a tenant of its own, and the check of its ledgers.
async fn run_load(
    service: &Service,
    load: &LoadArgs,
    progress: bool,
) -> Result<Report, BenchError> {
    let tenant = service.provision(load.scopes).await?;
    let measured = load::run(service, &tenant, load, progress).await?;
    check(service, load, tenant, measured).await
}

/// Compares the tenant's ledgers with what was answered.
async fn check(
    service: &Service,
    load: &LoadArgs,
    tenant: Tenant,
    measured: Measured,
) -> Result<Report, BenchError> {
    let sums = measured.books.sums;
    let differences = service.check(&tenant, &sums).await?;
    let expected = sums.expected(provision::ALLOCATED);
    Ok(Report::new(
        load,
        tenant.id,
        measured,
        expected,
        differences,
    ))
}

fn print<T: serde::Serialize + std::fmt::Display>(report: &T, json: bool) {
    match serde_json::to_string_pretty(report) {
        Ok(text) if json => println!("{text}"),
        _ => print!("{report}"),
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(&format!(": {source}"));
        cause = source.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use args::Workload;
    use fake::Fault;

    use super::*;

    /// Runs a short load against a service that misbehaves like that.
    async fn measured(fault: Fault, workload: Workload) -> Report {
        let address = fake::start(fault).await;
        let target: target::Target = format!("http://{address}").parse().expect("a URL");
        let target = Arc::new(target);
        let service = Service {
            runtime: Arc::clone(&target),
            admin: target,
            admin_key: "admin".to_owned().into(),
            dialect: crate::domain::dialect::Dialect::Service,
        };
        let load = LoadArgs {
            clients: 4,
            duration: Duration::from_millis(150),
            warmup: Duration::from_millis(20),
            scopes: 3,
            workload,
        };
        let report = run_load(&service, &load, false).await;
        report.unwrap_or_else(|error| panic!("{}", with_causes(&error)))
    }

    #[tokio::test]
    async fn the_books_of_a_good_service_agree_under_any_workload() {
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
    async fn a_lost_answer_is_recovered_and_booked_once() {
        for fault in [Fault::LosesAnswers, Fault::SaysUnavailable] {
            let report = measured(fault, Workload::Mixed).await;
            assert!(report.ledger.agrees, "{fault:?}\n{report}");
            assert!(report.error_rate > 0.05, "{fault:?}\n{report}");
        }
    }

    #[tokio::test]
    async fn a_wrong_ledger_is_told() {
        for fault in [Fault::ChargesRepetitions, Fault::LosesAUnit] {
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
    async fn nothing_is_measured_where_nobody_serves() {
        let nobody: target::Target = "http://127.0.0.1:1".parse().expect("a URL");
        let nobody = Arc::new(nobody);
        let service = Service {
            runtime: Arc::clone(&nobody),
            admin: nobody,
            admin_key: "admin".to_owned().into(),
            dialect: crate::domain::dialect::Dialect::Service,
        };
        let error = service.provision(1).await.expect_err("nobody is there");
        let text = with_causes(&error);
        assert!(
            text.starts_with("making a tenant: the service cannot be reached: cannot connect: "),
            "{text}"
        );
    }
}
