//! `budget-authority admin`: the operator's daily work, over the same HTTP operations that everybody else uses.
//!
//! Each command is one operation, or one list; nothing here knows a rule of the service. Exit codes: 0 done, 1 the service
//! refused, 2 the command line is wrong, 3 the service could not be reached or failed, so that the outcome may be unknown.

mod audit;
mod budgets;
mod client;
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
    Tenant(tenants::Verb),
    /// What agents and tenants call the service with
    #[command(subcommand)]
    Key(keys::Verb),
    /// What may be spent
    #[command(subcommand)]
    Budget(budgets::Verb),
    /// How the requests of some scopes are treated
    #[command(subcommand)]
    Policy(policies::Verb),
    /// What is held, and what came of it
    #[command(subcommand)]
    Reservation(reservations::Verb),
    /// What happened
    #[command(subcommand)]
    Event(events::Verb),
    /// Who changed what
    #[command(subcommand)]
    Audit(audit::Verb),
    /// The whole deployment on one page
    Overview,
}

/// Runs one command and prints what came of it.
pub async fn run(args: AdminArgs) -> ExitCode {
    let mut output = Output::new(io::stdout().lock(), args.json);
    match execute(args, &mut output).await {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read the output has seen enough.
        Err(OperatorError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit_code())
        }
    }
}

async fn execute(
    args: AdminArgs,
    output: &mut Output<impl io::Write>,
) -> Result<(), OperatorError> {
    let client = Client::new(args.connection)?;
    match args.area {
        Area::Tenant(verb) => verb.run(&client, output).await,
        Area::Key(verb) => verb.run(&client, output).await,
        Area::Budget(verb) => verb.run(&client, output).await,
        Area::Policy(verb) => verb.run(&client, output).await,
        Area::Reservation(verb) => verb.run(&client, output).await,
        Area::Event(verb) => verb.run(&client, output).await,
        Area::Audit(verb) => verb.run(&client, output).await,
        Area::Overview => overview::show(&client, output).await,
    }
}
