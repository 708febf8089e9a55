//! The API and the commands of developers and operators.

use std::io::{self, Write};
use std::process::ExitCode;

use budget_authority::api;
use budget_authority::config::{ServeArgs, StoreArgs};
use budget_authority::serve::{self, Listeners, ServeError};
use budget_authority::shutdown::{self, Shutdown};
use budget_authority::store::Store;
use budget_authority::telemetry::{self, Telemetry};
use budget_authority::tools::bench::{self, BenchArgs};
use budget_authority::tools::dev::{self, DevArgs};
use budget_authority::tools::evidence::{self, EvidenceVerifyArgs};
use budget_authority::tools::generate::{GenerateArgs, generate};
use budget_authority::tools::health::{self, HealthArgs};
use budget_authority::tools::limits::{LimitsArgs, limits};
use budget_authority::tools::locate::sizes::{SizesArgs, sizes};
use budget_authority::tools::locate::{LocateArgs, locate};
use budget_authority::tools::operator::{self, AdminArgs};
use budget_authority::tools::verify::audit::{AuditVerifyArgs, run_audit};
use budget_authority::tools::verify::{self, VerifyArgs};
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

/// Hard budget limits for autonomous agents: reserve before acting, commit what it cost, release the rest.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the API: the runtime plane and the admin plane
    Serve(Box<ServeArgs>),
    /// Run a development stack: a private Redis, the API, the background work and a demo tenant
    Dev(DevArgs),
    /// Operate a running service: tenants, API keys, budgets, policies, reservations, events, audit
    Admin(Box<AdminArgs>),
    /// Measure a running service, then check its ledgers
    Bench(Box<BenchArgs>),
    /// Ask a process of this machine whether it is healthy, as a container's health check
    Health(HealthArgs),
    /// Show every limit of the API and its value in this environment
    Limits(LimitsArgs),
    /// Generate keys for the settings; find and measure keys in Redis
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Verify the ledgers in Redis
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Print the script that makes a shell complete these commands
    Completions {
        /// Shell that completes them
        shell: Shell,
    },
    /// Verify the audit logs in Redis
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Verify signed evidence, without a connection to Redis
    #[command(subcommand)]
    Evidence(EvidenceCommand),
}

#[derive(Subcommand)]
enum EvidenceCommand {
    /// Find out whether an envelope is authentic
    Verify(EvidenceVerifyArgs),
}

#[derive(Subcommand)]
enum AuditCommand {
    /// Prove that no entry was altered, dropped or inserted. Exit code: 0 proved, 1 disproved, 2 unknown
    Verify {
        #[command(flatten)]
        args: AuditVerifyArgs,
        #[command(flatten)]
        store: StoreArgs,
    },
}

#[derive(Subcommand)]
enum LedgerCommand {
    /// Recompute every ledger from its records. Exit code: 0 all right, 1 something differs, 2 unknown
    Verify {
        #[command(flatten)]
        args: VerifyArgs,
        #[command(flatten)]
        store: StoreArgs,
    },
}

#[derive(Subcommand)]
enum KeysCommand {
    /// Print a random key for a setting
    Generate(GenerateArgs),
    /// Show the partition, the cluster slot and the keys of a tenant, without a connection to Redis
    Locate(LocateArgs),
    /// Show the keys that a tenant has in Redis, with type, entries and memory
    Sizes {
        #[command(flatten)]
        args: SizesArgs,
        #[command(flatten)]
        store: StoreArgs,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Serve(args) => serve(*args).await.map_err(Into::into),
        Command::Dev(args) => develop(args).await,
        Command::Ledger(LedgerCommand::Verify { args, store }) => {
            return verified(store, async |store| {
                verify::run(&store, &args, std::io::stdout()).await
            })
            .await;
        }
        Command::Audit(AuditCommand::Verify { args, store }) => {
            return verified(store, async |store| {
                run_audit(&store, &args, std::io::stdout()).await
            })
            .await;
        }
        Command::Evidence(EvidenceCommand::Verify(args)) => {
            return ExitCode::from(evidence::run(&args, io::stdout()).await);
        }
        Command::Admin(args) => return operator::run(*args).await,
        Command::Completions { shell } => print_completions(shell).map_err(Into::into),
        Command::Limits(args) => match limits(args) {
            Ok(text) => print_to_end(text.as_bytes()).map_err(Into::into),
            Err(error) => error.exit(),
        },
        Command::Health(args) => return health::run(args).await,
        Command::Bench(args) => return bench::run(*args).await,
        Command::Keys(KeysCommand::Sizes { args, store }) => show_sizes(&args, store).await,
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
    print_to_end(&script)
}

/// Prints a text, unless its reader stops before its end.
fn print_to_end(text: &[u8]) -> io::Result<()> {
    match io::stdout().write_all(text) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

async fn serve(args: ServeArgs) -> Result<(), ServeError> {
    telemetry::start_log(&args.log);
    let config = args.into_config()?;
    let shutdown = Shutdown::on_signals()?;
    let telemetry = Telemetry::new()?;
    let store = config.store.open(telemetry.registry())?;
    let listeners = Listeners::bind(&config).await?;
    let planes = api::planes(&config, &store);
    tokio::spawn(api::warn_at_start(config.clone(), store.clone()));
    serve::run(listeners, planes, store, telemetry, &config, shutdown).await
}

async fn develop(args: DevArgs) -> Result<(), Box<dyn std::error::Error>> {
    telemetry::start_log(&args.log());
    let shutdown = Shutdown::on_signals()?;
    Ok(dev::run(args, shutdown).await?)
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
    let sizes = sizes(&store, &args.tenant).await?;
    if sizes.keys.is_empty() {
        let (tenant, prefix) = (&args.tenant, store.keys().prefix());
        let nobody = format!("there is no tenant `{tenant}` under the key prefix `{prefix}`");
        return Err(nobody.into());
    }
    print!(
        "{}",
        if args.json {
            sizes.json()
        } else {
            sizes.table()
        }
    );
    Ok(())
}
