//! `budget-authority admin`: the operator's daily work, over the public HTTP operations.
//!
//! A command is a row of the [index](commands): an operation, whose parameters and members are its flags. No rule of the service
//! is repeated here.

mod amounts;
mod arguments;
mod charges;
mod commands;
mod funding;
mod inputs;
mod replay;
mod responses;
mod tail;
mod tree;
mod usage;
mod why;

use std::collections::HashMap;
use std::io::Write;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use serde_json::Value;

use crate::api::operation::Callers;
use crate::api::operations::OperationId;
use crate::tools::call::{Call, CallError};
use crate::tools::client::Client;
use crate::tools::connection::Connection;
use crate::tools::output::{BAD, Output};
use commands::{Action, CommandRow, commands_of};
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
    #[command(flatten)]
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

impl Args for ChosenCommand {
    fn augment_args(command: Command) -> Command {
        let command = command.subcommands(commands_of(""));
        command
            .subcommand_required(true)
            .arg_required_else_help(true)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// Runs one command and prints its result.
///
/// # Errors
/// [`CallError`], which [`CallError::exit`] turns into the exit code.
pub async fn run(args: AdminArgs) -> Result<(), CallError> {
    let mut client = args.connection.client()?;
    let output = &mut Output::of_stdout(args.json);
    let ChosenCommand { row, matches } = args.chosen;
    let call = row.call(&matches)?;
    let limit = matches.try_get_one("limit").ok().flatten();
    let limit = limit.and_then(Value::as_u64);
    if limit == Some(0) {
        return Err(CallError::Usage("--limit must be at least 1".to_owned()));
    }
    let limit = limit.and_then(|limit| usize::try_from(limit).ok());
    match row.action {
        Action::List => list(&row, &call, limit, &client, output).await,
        Action::Usage => usage::run(&row, &call, limit, &matches, &client, output).await,
        Action::Why => why::run(&call, &client, output).await,
        Action::Charges => charges::run(&row, &call, limit, &client, output).await,
        Action::Tree => list(&row, &call, None, &client, output).await,
        Action::Tail => {
            let lines = matches.get_one("lines").copied().unwrap_or_default();
            tail::run(&call, (lines, matches.get_flag("follow")), &client, output).await
        }
        Action::Replay => replay::run(&call, matches.get_flag("no-wait"), &client, output).await,
        Action::Call => {
            // One from the environment is for operations that take no other.
            let is_for_tenants = matches!(call.operation.operation().callers, Callers::Tenant(_));
            let is_given = matches.value_source("api-key") == Some(ValueSource::CommandLine);
            match matches.get_one::<String>("api-key") {
                Some(key) if is_given || is_for_tenants => client = client.with_api_key(key)?,
                None if is_for_tenants => {
                    let text =
                        "this operation is for tenants: set BUDGET_API_KEY, or give --api-key";
                    return Err(CallError::Usage(text.to_owned()));
                }
                _ => {}
            }
            output.json(&client.send(&call).await?)
        }
        _ => {
            let mut response = client.send(&call).await?;
            let scopes = call.body.as_ref().and_then(|body| body.get("scope_filter"));
            if let Some(scopes) = scopes.filter(|_| row.operation == OperationId::CreateApiKey) {
                response["scope_filter"] = scopes.clone();
            }
            match row.action {
                Action::Bulk if !output.is_json => responses::print_bulk(&response, output)?,
                Action::Overview if !output.is_json => {
                    responses::print_overview(&response, output)?
                }
                _ if output.is_json => output.object(&response)?,
                _ if response["ledger_id"].is_string() => {
                    responses::print_budget(&response, output)?
                }
                // The budget shows the increase as well.
                _ if response["increase_id"].is_string() => {
                    responses::print_budget(&response["budget"], output)?
                }
                _ => output.object(&response)?,
            }
            let problem = match (row.action, &response["failed"]) {
                (Action::Test, _) if response["success"] != true => {
                    "the receiver did not accept the test event"
                }
                (Action::Bulk, Value::Array(rows)) if !rows.is_empty() => "some rows failed",
                _ => return Ok(()),
            };
            Err(CallError::Incomplete(problem))
        }
    }
}

/// Prints at most `limit` rows of a list, budgets as a tree.
async fn list(
    row: &CommandRow,
    call: &Call,
    limit: Option<usize>,
    client: &Client,
    output: &mut Output<impl Write>,
) -> Result<(), CallError> {
    let mut rows = client.rows(call, limit).await?;
    if rows.is_empty() {
        check_tenant(call, client).await?;
    }
    if row.operation == OperationId::ListApiKeys {
        add_creators(&mut rows, call, client).await?;
    }
    if row.action == Action::Tree && !output.is_json && !rows.is_empty() {
        return Tree::of(&rows)
            .lines(output.terminal)
            .iter()
            .try_for_each(|line| match line.contains("  OVER LIMIT") {
                true => output.line(&output.terminal.paint(line, BAD)),
                false => output.line(line),
            });
    }
    let nothing = match row.nothing.split(';').next() {
        Some(none) if !call.query.is_empty() => format!("{none} match these filters"),
        _ => row.nothing.to_owned(),
    };
    output.table(row.columns, &rows, &nothing)
}

/// Refuses an empty list of a tenant that does not exist: its id may be mistyped.
async fn check_tenant(list: &Call, client: &Client) -> Result<(), CallError> {
    // `__system__` and the like own records without being tenants. Other refusals do not count: the address of the API may have
    // no admin plane.
    let is_tenant = |(name, id): &&(String, String)| {
        ["tenant", "tenant_id"].contains(&name.as_str()) && !id.starts_with("__")
    };
    if let Some((_, id)) = list.query.iter().find(is_tenant)
        && let Err(CallError::Refused(refusal)) =
            client.send(&Call::to(OperationId::GetTenant, id)).await
        && refusal.code == "TENANT_NOT_FOUND"
    {
        return Err(CallError::Refused(refusal));
    }
    Ok(())
}

/// Sets `created_by` of each key that has an audit entry: the name of the admin key, or `admin`.
async fn add_creators(keys: &mut [Value], list: &Call, client: &Client) -> Result<(), CallError> {
    let tenant = list.query.iter().find(|(name, _)| name == "tenant_id");
    let entries = Call::of(OperationId::ListAuditLogs)
        .with("operation", Some(OperationId::CreateApiKey))
        .with("tenant_id", tenant.map(|(_, id)| id));
    let entries = client.rows(&entries, None).await?;
    let creator = |entry: &Value| {
        let mut names = ["actor", "actor_type"].iter();
        let name = names.find_map(|name| entry["metadata"][name].as_str())?;
        Some((entry["resource_id"].as_str()?.to_owned(), name.into()))
    };
    let creators: HashMap<_, Value> = entries.iter().filter_map(creator).collect();
    for key in keys {
        let creator = key["key_id"].as_str().and_then(|id| creators.get(id));
        if let Some(creator) = creator {
            key["created_by"] = creator.clone();
        }
    }
    Ok(())
}
