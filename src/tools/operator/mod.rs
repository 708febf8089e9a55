//! `budget-authority admin`: the operator's daily work, over the public HTTP operations.
//!
//! A command is a row of the [index](commands): an operation, whose parameters and members are its flags. No rule of the service
//! is repeated here.

mod arguments;
mod commands;
mod funding;
mod inputs;
mod output;
mod replay;
mod responses;
mod tail;
mod tree;

use std::collections::HashMap;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use serde_json::Value;

use crate::api::operations::OperationId;
use crate::tools::call::{Call, CallError};
use crate::tools::client::Client;
use crate::tools::connection::Connection;
use commands::{Action, CommandRow, commands_of};
use output::{Output, Style, Tone};
use tree::Tree;

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
    chosen: ChosenCommand,
}

/// A command and its arguments.
#[derive(Debug)]
struct ChosenCommand {
    row: CommandRow,
    matches: ArgMatches,
}

impl FromArgMatches for ChosenCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let (mut words, mut matches) = (Vec::new(), matches);
        while let Some((word, inner)) = matches.subcommand() {
            words.push(word);
            matches = inner;
        }
        let unknown = || clap::Error::new(ErrorKind::InvalidSubcommand);
        let row = CommandRow::find(&words.join(" ")).ok_or_else(unknown)?;
        let matches = matches.clone();
        Ok(Self { row, matches })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for ChosenCommand {
    fn augment_subcommands(command: Command) -> Command {
        command.subcommands(commands_of(""))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        let commands = commands_of("");
        commands.iter().any(|command| command.get_name() == name)
    }
}

/// Runs one command and prints its result.
pub async fn run(args: AdminArgs) -> ExitCode {
    CallError::exit(execute(args).await)
}

async fn execute(args: AdminArgs) -> Result<(), CallError> {
    let mut client = args.connection.client()?;
    let output = &mut Output::new(io::stdout().lock(), args.json, Style::of_stdout());
    let ChosenCommand { row, matches } = args.chosen;
    let call = row.call(&matches)?;
    match row.action {
        Action::List => {
            let limit = matches.get_one("limit").and_then(Value::as_u64);
            list(&row, &call, limit, &client, output).await
        }
        Action::Tree => list(&row, &call, None, &client, output).await,
        Action::Tail => {
            let lines = matches.get_one("lines").copied().unwrap_or_default();
            tail::run(&call, (lines, matches.get_flag("follow")), &client, output).await
        }
        Action::Replay => replay::run(&call, matches.get_flag("no-wait"), &client, output).await,
        Action::Call => {
            if let Some(key) = matches.get_one::<String>("api-key") {
                client = client.with_api_key(key)?;
            }
            output.json(&client.send(&call).await?)
        }
        Action::Bulk => responses::print_bulk(&client.send(&call).await?, output),
        Action::Overview => responses::print_overview(&client.send(&call).await?, output),
        Action::Show | Action::Change | Action::Close | Action::Test => {
            let mut response = client.send(&call).await?;
            let scopes = call.body.as_ref().and_then(|body| body.get("scope_filter"));
            if let Some(scopes) = scopes.filter(|_| row.operation == OperationId::CreateApiKey) {
                response["scope_filter"] = scopes.clone();
            }
            output.object(&response)?;
            if row.action == Action::Test && response["success"] != true {
                let text = "the receiver did not accept the test event";
                return Err(CallError::Incomplete(text));
            }
            Ok(())
        }
    }
}

/// Prints at most `limit` rows of a list, budgets as a tree.
async fn list(
    row: &CommandRow,
    call: &Call,
    limit: Option<u64>,
    client: &Client,
    output: &mut Output<impl Write>,
) -> Result<(), CallError> {
    let limit = limit.and_then(|limit| usize::try_from(limit).ok());
    let mut rows = client.rows(call, limit).await?;
    if row.operation == OperationId::ListApiKeys {
        add_creators(&mut rows, call, client).await?;
    }
    if row.action == Action::Tree && !output.is_json() && !rows.is_empty() {
        let style = output.style();
        return Tree::of(&rows).lines().iter().try_for_each(|line| {
            let is_over = line.contains("  OVER LIMIT");
            output.line(&style.paint(line, is_over.then_some(Tone::Bad)))
        });
    }
    let nothing = match row.nothing.split(';').next() {
        Some(none) if !call.query.is_empty() => format!("{none} match these filters"),
        _ => row.nothing.to_owned(),
    };
    output.table(row.columns, &rows, &nothing)
}

/// Sets `created_by` of each key that has an audit entry: the name of the admin key, or `admin`.
async fn add_creators(keys: &mut [Value], list: &Call, client: &Client) -> Result<(), CallError> {
    let tenant = list.query.iter().find(|(name, _)| name == "tenant_id");
    let entries = Call::of(OperationId::ListAuditLogs)
        .with("operation", Some(OperationId::CreateApiKey))
        .with("tenant_id", tenant.map(|(_, id)| id));
    let entries = client.rows(&entries, None).await?;
    let creator = |entry: &Value| {
        let metadata = &entry["metadata"];
        let name = metadata["actor"].as_str();
        let name = name.or_else(|| metadata["actor_type"].as_str())?;
        Some((entry["resource_id"].as_str()?.to_owned(), name.to_owned()))
    };
    let creators: HashMap<_, _> = entries.iter().filter_map(creator).collect();
    for key in keys {
        let creator = key["key_id"].as_str().and_then(|id| creators.get(id));
        if let Some(creator) = creator {
            key["created_by"] = creator.as_str().into();
        }
    }
    Ok(())
}
