//! The background work: everything that follows from emitted events and from time.

use std::process::ExitCode;

use budget_authority::config::{DispatcherArgs, exposed_secrets};
use budget_authority::dispatcher::{self as dispatch, Settings};
use budget_authority::evidence::Issuing;
use budget_authority::serve::{self, ServeError};
use budget_authority::shutdown::{self, Shutdown};
use budget_authority::spans;
use budget_authority::telemetry::{self, Telemetry};
use clap::Parser;
use tracing::warn;

/// Does the background work of a budget authority: webhooks, expiry, retention, views, audit seals, interrupted closes. Run any
/// number.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(flatten)]
    args: DispatcherArgs,
}

/// A request makes some sixty small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = run(Cli::parse().args).await;
    shutdown::exit_code(outcome.map_err(Into::into))
}

async fn run(args: DispatcherArgs) -> Result<(), ServeError> {
    telemetry::start_log(&args.log);
    let config = args.into_config()?;
    let export = spans::start("budget-dispatcher")?;
    let shutdown = Shutdown::on_signals()?;
    let telemetry = Telemetry::new()?;
    let store = config.store.open(telemetry.registry())?;
    // Before any work: a process that can't serve its probes must not take a share of it.
    let metrics = serve::bind_some("BUDGET_METRICS_LISTEN", config.process.metrics_listen).await?;
    for warning in exposed_secrets() {
        warn!("{warning}");
    }
    let issuing = config.evidence.as_ref();
    let issuing = issuing.map(|signing| Issuing::new(signing.evidence.issuers.clone()));
    let settings = Settings {
        dialect: config.store.dialect,
        retention: config.retention,
        secrets: config.secrets,
        egress: config.webhooks.egress(),
        in_flight: dispatch::IN_FLIGHT_MAX,
        lane_concurrency: config.deliveries.lane_concurrency,
        host_rate: config.deliveries.host_rate,
        metrics_tenants: config.metrics_tenants,
        evidence: config.evidence.zip(issuing.clone()),
    };
    serve::raise_limit(dispatch::CONNECTIONS_MAX);
    let dispatcher = dispatch::start(&store, settings, &telemetry, &shutdown)?;
    let outcome = serve::run_without_api(
        metrics,
        store,
        issuing,
        telemetry,
        &config.process,
        shutdown,
    )
    .await;
    dispatcher.finished(config.process.shutdown_grace).await;
    export.end().await;
    outcome
}
