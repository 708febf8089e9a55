//! `budget-authority bench`: a load generator that checks the ledgers.
//!
//! It knows the service only by its protocol. It makes a tenant of its own, sends a mix of requests over keep-alive
//! connections, and reports rates and times. Afterwards the ledgers must agree with the responses, to the unit.

mod args;
mod client;
mod compare;
mod deliver;
mod load;
mod recorder;
mod script;
mod service;
mod stack;

use std::io;
use std::process::ExitCode;

pub use args::BenchArgs;

use load::Report;
use serde::Serialize;
use service::Service;

use crate::config::ConfigError;
use crate::store::StoreError;
use crate::telemetry::error_chain;
use crate::tools::call::CallError;

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
enum BenchError {
    #[error("--admin-key or BUDGET_ADMIN_KEY is required: the benchmark makes a tenant of its own")]
    NoAdminKey,
    #[error("holds live an hour: {what} may take {minutes} minutes at most, warm-up included")]
    TooLong { what: &'static str, minutes: u64 },
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("the tenant, its key or its scope cannot be used without HTTP")]
    Tenant,
    #[error("a script replied `{reply}` instead of `{expected}`")]
    Script {
        expected: &'static str,
        reply: String,
    },
    #[error("the service or its Redis cannot be started")]
    Stack(#[source] io::Error),
    #[error("the load generator failed")]
    Generator(#[source] io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// A report that ends the process with an exit code.
pub(super) trait BenchReport: Serialize {
    /// Whether every ledger agrees, and no more requests failed than allowed.
    fn is_well(&self, max_error_rate: f64) -> bool;

    /// Tables and sentences for people.
    fn text(&self) -> String;
}

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
    if args.compare {
        return Ok(print(&compare::run(args).await?, args));
    }
    if args.deliver {
        return Ok(print(&deliver::run(args).await?, args));
    }
    let service = Service {
        admin: args.admin_url.as_ref().unwrap_or(&args.url).clone(),
        runtime: args.url.clone(),
        admin_key: args.admin_key.clone().ok_or(BenchError::NoAdminKey)?,
        dialect: args.dialect,
    };
    let report = Report::measure(&service, &args.load, args.progress).await?;
    Ok(print(&report, args))
}

/// Prints a report; whether all is well.
fn print(report: &impl BenchReport, args: &BenchArgs) -> bool {
    match serde_json::to_string_pretty(report) {
        Ok(text) if args.json => println!("{text}"),
        _ => print!("{}", report.text()),
    }
    report.is_well(args.max_error_rate)
}
