//! The API and the operator's verbs.

use std::process::ExitCode;

use budget_authority::api;
use budget_authority::bench::{self, BenchArgs};
use budget_authority::config::ServeArgs;
use budget_authority::dev::{self, DevArgs};
use budget_authority::locate::{LocateArgs, locate};
use budget_authority::serve::{self, Listeners, ServeError};
use budget_authority::shutdown::{self, Shutdown};
use budget_authority::telemetry::{self, Telemetry};
use clap::{Parser, Subcommand};

/// Hard budget limits for autonomous agents: reserve before acting, commit what it cost, release the rest.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Serve the API: the runtime plane and the admin plane
    Serve(Box<ServeArgs>),
    /// Run everything on this machine: a private Redis, the API, the workers and a demo tenant
    Dev(DevArgs),
    /// Measure a running service, and check its ledgers afterwards
    Bench(Box<BenchArgs>),
    /// Look at the keys in Redis
    #[command(subcommand)]
    Keys(KeysVerb),
}

#[derive(Subcommand)]
enum KeysVerb {
    /// Show where the records of a tenant are: partition, cluster slot and keys
    Locate(LocateArgs),
}

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match Cli::parse().verb {
        Verb::Serve(args) => serve(*args).await.map_err(Into::into),
        Verb::Dev(args) => develop(args).await,
        Verb::Bench(args) => return bench::run(*args).await,
        Verb::Keys(KeysVerb::Locate(args)) => {
            print!("{}", locate(&args));
            Ok(())
        }
    };
    shutdown::exit_code(outcome)
}

async fn serve(args: ServeArgs) -> Result<(), ServeError> {
    telemetry::start_log(&args.log);
    let config = args.into_config()?;
    let shutdown = Shutdown::on_signals()?;
    let telemetry = Telemetry::new()?;
    let store = config.store.open(telemetry.registry())?;
    let listeners = Listeners::bind(&config).await?;
    let planes = api::planes(&config, &store);
    serve::run(
        listeners,
        planes,
        store,
        telemetry,
        &config.process,
        shutdown,
    )
    .await
}

async fn develop(args: DevArgs) -> Result<(), Box<dyn std::error::Error>> {
    telemetry::start_log(&args.log());
    let shutdown = Shutdown::on_signals()?;
    Ok(dev::run(args, shutdown).await?)
}
