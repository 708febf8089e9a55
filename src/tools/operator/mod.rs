//! `budget-authority admin`: the operator's daily work, over the public HTTP operations.
//!
//! Each command is one operation or one list; no rule of the service is repeated here.

mod audit;
mod budgets;
mod bulk;
mod console;
mod events;
mod key_list;
mod keys;
mod output;
mod overview;
mod policies;
mod replay;
mod reservations;
mod style;
mod tail;
mod tenants;
mod time;
mod tree;
mod webhook_rules;
mod webhooks;

use std::io;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::tools::client_error::CallError;
use crate::tools::connection::Connection;
use console::Action;
use output::Output;
use style::Style;

const EXIT_CODES: &str = "Exit codes: 0 done, 1 the service refused, or a receiver did not accept, 2 the command line is wrong, 3 the service could not be \
    reached or failed, so that the outcome may be unknown";

/// Settings and command of `budget-authority admin`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct AdminArgs {
    #[command(flatten)]
    connection: Connection,
    /// Print the response as JSON: one object, or one per line for a list
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    area: Area,
}

#[derive(Debug, Subcommand)]
enum Area {
    /// Tenants: they own budgets and keys
    #[command(subcommand)]
    Tenant(tenants::Command),
    /// API keys of agents and tenants
    #[command(subcommand)]
    Key(keys::Command),
    /// Budgets: what may be spent
    #[command(subcommand)]
    Budget(budgets::Command),
    /// Policies: caps, rate limits and defaults of scopes
    #[command(subcommand)]
    Policy(policies::Command),
    /// Reservations: holds and their outcome, at the address of the API
    #[command(subcommand)]
    Reservation(reservations::Command),
    /// Webhooks: where events are sent
    #[command(subcommand)]
    Webhook(webhooks::Command),
    /// Events
    #[command(subcommand)]
    Event(events::Command),
    /// The audit log: who changed what
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
        Err(CallError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit_code())
        }
    }
}

async fn execute(args: AdminArgs) -> Result<(), CallError> {
    let client = args.connection.client()?;
    let mut output = Output::new(io::stdout().lock(), args.json, Style::of_stdout());
    let action = match args.area {
        Area::Tenant(command) => command.action()?,
        Area::Key(command) => command.action()?,
        Area::Budget(command) => command.action()?,
        Area::Policy(command) => command.action()?,
        Area::Reservation(command) => command.action(),
        Area::Webhook(command) => command.action()?,
        Area::Event(command) => command.action(),
        Area::Audit(command) => command.action(),
        Area::Overview => Action::Overview,
    };
    action.run(&client, &mut output).await
}
