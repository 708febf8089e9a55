//! `budget-authority bench`: a load generator that checks the ledgers.
//!
//! It knows the service only by its protocol. It makes a tenant of its own, sends a mix of requests over keep-alive
//! connections, and reports rates and times. Afterwards the ledgers must agree with the responses, to the unit.

mod args;
mod bare;
mod client;
mod compare;
mod connection;
mod deliver;
mod error;
mod evidence;
mod growth;
mod ledger;
mod limits;
mod load;
mod memory;
mod monitor;
mod recorder;
mod report;
mod requests;
mod response;
mod rows;
mod script;
mod service;
mod session;
mod stack;

use std::process::ExitCode;

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
    } else if args.limits {
        print(&limits::run(args).await?, args)
    } else if args.deliver {
        print(&deliver::run(args).await?, args)
    } else if args.evidence {
        print(&evidence::run(args).await?, args)
    } else if !args.compare_stored.is_empty() {
        print(&growth::with_reservations(args).await?, args)
    } else if !args.compare_listed.is_empty() {
        print(&growth::with_budgets(args).await?, args)
    } else if !args.compare_policies.is_empty() {
        print(&growth::with_policies(args).await?, args)
    } else {
        let service = Service {
            admin: args.admin_url.as_ref().unwrap_or(&args.url).clone(),
            runtime: args.url.clone(),
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
        _ => print!("{}", report.text()),
    }
    report.is_well(args.max_error_rate)
}
