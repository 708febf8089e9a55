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

use serde_json::Value;
use service::Service;

use crate::config::ConfigError;
use crate::store::StoreError;
use crate::telemetry::error_chain;
use crate::tools::call::CallError;

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
enum BenchError {
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

/// The result of a benchmark.
struct Report {
    /// For programs.
    json: Value,
    /// Tables and sentences for people.
    text: String,
    /// Whether every ledger agrees, every figure is within its bound, and no more requests failed than allowed.
    is_well: bool,
}

/// Runs the benchmark and prints its report to standard output.
///
/// The exit code is 0 when all is well, 1 when a ledger disagrees with the responses or more requests failed than
/// `--max-error-rate` allows, and 2 when nothing could be measured; then the reason is on standard error.
pub async fn run(args: BenchArgs) -> ExitCode {
    match measure(&args).await {
        Ok(report) => {
            match args.json {
                true => println!("{:#}", report.json),
                false => print!("{}", report.text),
            }
            ExitCode::from(u8::from(!report.is_well))
        }
        Err(error) => {
            eprintln!("bench: {}", error_chain(&error));
            ExitCode::from(2)
        }
    }
}

async fn measure(args: &BenchArgs) -> Result<Report, BenchError> {
    args.refuse_too_long()?;
    if args.compare {
        return compare::run(args).await;
    }
    if args.deliver {
        return deliver::run(args).await;
    }
    let reason =
        "--admin-key or BUDGET_ADMIN_KEY is required: the benchmark makes a tenant of its own";
    let admin_key = args.admin_key.clone();
    let service = Service {
        admin: args.admin_url.as_ref().unwrap_or(&args.url).clone(),
        runtime: args.url.clone(),
        admin_key: admin_key.ok_or_else(|| CallError::Usage(reason.to_owned()))?,
        dialect: args.dialect,
    };
    let run = load::LoadRun::measure(&service, &args.load, args.progress).await?;
    Ok(run.report(args.max_error_rate))
}
