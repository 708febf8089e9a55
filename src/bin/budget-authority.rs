//! The API and the commands of developers and operators.

use std::io::{self, Write};
use std::process::ExitCode;

use budget_authority::api;
use budget_authority::config::{ServeArgs, StoreArgs, exposed_secrets};
use budget_authority::serve::{self, Listeners, ServeError};
use budget_authority::shutdown::{self, Shutdown};
use budget_authority::spans;
use budget_authority::store::Store;
use budget_authority::telemetry::{self, Telemetry};
use budget_authority::tools::call::CallError;
use budget_authority::tools::cli::{
    AuditCommand, Cli, Command, EvidenceCommand, KeysCommand, LedgerCommand, OnStore,
};
use budget_authority::tools::dev::{self, DevArgs};
use budget_authority::tools::keys::{SizesArgs, generate, locate, sizes, stocks};
use budget_authority::tools::limits::limits;
use budget_authority::tools::verify::audit::run_audit;
use budget_authority::tools::{bench, connection, evidence, files, health, operator, verify};
use clap::{CommandFactory, Parser};
use clap_complete::Shell;
use tracing::warn;

/// A request makes some sixty small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let command = Cli::parse().command;
    // The others have a log.
    if !matches!(command, Command::Serve(_) | Command::Dev(_)) {
        for warning in exposed_secrets() {
            eprintln!("warning: {warning}");
        }
    }
    let outcome = match command {
        Command::Serve(args) => serve(*args).await.map_err(Into::into),
        Command::Dev(args) => develop(*args).await,
        Command::Ledger(LedgerCommand::Verify(OnStore { args, store })) => {
            return verified(store, async |store| {
                verify::run(&store, &args, std::io::stdout()).await
            })
            .await;
        }
        Command::Audit(AuditCommand::Verify(OnStore { args, store })) => {
            return verified(store, async |store| {
                run_audit(&store, &args, std::io::stdout()).await
            })
            .await;
        }
        Command::Evidence(EvidenceCommand::Verify(args)) => {
            return ExitCode::from(evidence::run(&args, io::stdout()).await);
        }
        Command::Admin(args) => return CallError::exit(operator::run(*args).await),
        Command::Apply(args) => return CallError::exit(files::apply(*args).await),
        Command::Diff(args) => return CallError::exit(files::diff(*args).await),
        Command::Export(args) => return CallError::exit(files::export(*args).await),
        Command::Login(args) => return CallError::exit(connection::login(args).await),
        Command::Logout(args) => return CallError::exit(connection::logout(&args)),
        Command::Completions { shell } => print_completions(shell).map_err(Into::into),
        Command::Limits(args) => return CallError::exit(limits(args)),
        Command::Health(args) => return health::run(args).await,
        Command::Bench(args) => return bench::run(*args).await,
        Command::Keys(KeysCommand::Sizes(OnStore { args, store })) => {
            show_sizes(&args, store).await
        }
        Command::Keys(KeysCommand::Locate(args)) => {
            print!("{}", locate(&args));
            Ok(())
        }
        Command::Keys(KeysCommand::Generate(args)) => {
            println!("{}", generate(&args));
            Ok(())
        }
    };
    shutdown::exit_code(outcome)
}

fn print_completions(shell: Shell) -> io::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "budget-authority", &mut script);
    match io::stdout().write_all(&script) {
        // The reader of a pipe may stop before the end.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

async fn serve(args: ServeArgs) -> Result<(), ServeError> {
    telemetry::start_log(&args.log);
    let config = args.into_config()?;
    let export = spans::start("budget-authority")?;
    let shutdown = Shutdown::on_signals()?;
    let telemetry = Telemetry::new()?;
    let store = config.store.open(telemetry.registry())?;
    let listeners = Listeners::bind(&config).await?;
    for warning in exposed_secrets() {
        warn!("{warning}");
    }
    let planes = api::planes(&config, &store, config.webhooks.egress());
    let webhooks = planes.state.webhooks.clone();
    tokio::spawn(async move { webhooks.warn_of_open_security().await });
    let outcome = serve::run(listeners, planes, store, telemetry, &config, shutdown).await;
    export.end().await;
    outcome
}

async fn develop(args: DevArgs) -> Result<(), Box<dyn std::error::Error>> {
    telemetry::start_log(&args.log());
    let shutdown = Shutdown::on_signals()?;
    let export = spans::start("budget-authority")?;
    let outcome = dev::run(args, shutdown).await;
    export.end().await;
    Ok(outcome?)
}

/// Opens the store for a verification; its exit code, 2 where it could not begin.
async fn verified(args: StoreArgs, verify: impl AsyncFnOnce(Store) -> u8) -> ExitCode {
    let opened = args
        .into_config()
        .and_then(|config| config.open_to_read(&prometheus::Registry::new()));
    match opened {
        Ok(store) => ExitCode::from(verify(store).await),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

async fn show_sizes(args: &SizesArgs, store: StoreArgs) -> Result<(), Box<dyn std::error::Error>> {
    let store = store
        .into_config()?
        .open_to_read(&prometheus::Registry::new())?;
    let Some(tenant) = &args.tenant else {
        print!("{}", stocks(&store).await?.text(args.json));
        return Ok(());
    };
    let sizes = sizes(&store, tenant).await?;
    if sizes.keys.is_empty() {
        let prefix = store.keys().prefix();
        let nobody = format!("there is no tenant `{tenant}` under the key prefix `{prefix}`");
        return Err(nobody.into());
    }
    print!("{}", sizes.text(args.json));
    Ok(())
}
