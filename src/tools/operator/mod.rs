//! `budget-authority admin`: the operator's daily work, over the public HTTP operations.
//!
//! Each command is one operation or one list; no rule of the service is repeated here.

mod audit;
mod budgets;
mod client;
mod console;
mod error;
mod events;
mod keys;
mod output;
mod overview;
mod policies;
mod reservations;
mod tenants;
mod time;
mod tree;

use std::io;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use client::{Client, Connection};
use console::Console;
use error::OperatorError;
use output::Output;

const EXIT_CODES: &str = "Exit codes: 0 done, 1 the service refused, 2 the command line is wrong, 3 the service could not be \
    reached or failed, so that the outcome may be unknown";

/// Settings and command of `budget-authority admin`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct AdminArgs {
    #[command(flatten)]
    connection: Connection,
    /// Print what the service answered: one JSON object, or one per line where there are many
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    area: Area,
}

#[derive(Debug, Subcommand)]
enum Area {
    /// Who owns budgets and keys
    #[command(subcommand)]
    Tenant(tenants::Command),
    /// What agents and tenants call the service with
    #[command(subcommand)]
    Key(keys::Command),
    /// What may be spent
    #[command(subcommand)]
    Budget(budgets::Command),
    /// How the requests of some scopes are treated
    #[command(subcommand)]
    Policy(policies::Command),
    /// What is held, and what came of it
    #[command(subcommand)]
    Reservation(reservations::Command),
    /// What happened
    #[command(subcommand)]
    Event(events::Command),
    /// Who changed what
    #[command(subcommand)]
    Audit(audit::Command),
    /// The whole deployment on one page
    Overview,
}

/// Runs one command and prints its result.
pub async fn run(args: AdminArgs) -> ExitCode {
    match execute(args).await {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of a pipe may stop before the end.
        Err(OperatorError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit_code())
        }
    }
}

async fn execute(args: AdminArgs) -> Result<(), OperatorError> {
    let mut console = Console {
        client: Client::new(args.connection)?,
        output: Output::new(io::stdout().lock(), args.json),
    };
    match args.area {
        Area::Tenant(command) => command.run(&mut console).await,
        Area::Key(command) => command.run(&mut console).await,
        Area::Budget(command) => command.run(&mut console).await,
        Area::Policy(command) => command.run(&mut console).await,
        Area::Reservation(command) => command.run(&mut console).await,
        Area::Event(command) => command.run(&mut console).await,
        Area::Audit(command) => command.run(&mut console).await,
        Area::Overview => overview::show(&mut console).await,
    }
}
