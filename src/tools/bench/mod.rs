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
use tokio::runtime::Builder;
use tokio::task::{JoinError, spawn_blocking};

use crate::api::dialect::headers::ADMIN_KEY;
use crate::store::StoreError;
use crate::telemetry::error_chain;
use crate::tools::call::CallError;
use crate::tools::client::Client;
use service::Service;

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
enum BenchError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("a script replied `{0}` instead of `{1}`")]
    Script(String, &'static str),
    #[error("the benchmark cannot start what it needs")]
    Start(#[from] io::Error),
    #[error("the load generator failed")]
    Generator(#[from] JoinError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

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
    let is_json = args.json;
    // One thread, which leaves the other cores to the service.
    let worker = move || {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(measure(&args))
    };
    let measured = spawn_blocking(worker).await;
    match measured.map_err(BenchError::from).flatten() {
        Ok(report) => {
            match is_json {
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
    let key = args.admin_key.as_ref();
    let key = key.ok_or_else(|| CallError::Usage(reason.to_owned()))?;
    let admin = args.admin_url.as_ref().unwrap_or(&args.url).clone();
    let service = Service {
        admin: Client::new(admin, &ADMIN_KEY, key)?,
        runtime: args.url.clone(),
        dialect: args.dialect,
    };
    let run = load::LoadRun::measure(&service, args).await?;
    Ok(run.report())
}
