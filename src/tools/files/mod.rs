//! `budget-authority apply`, `diff` and `export`: tenants, budgets, policies, webhooks and API keys in a file.
//!
//! The members of the file are those of the requests that create objects, read by the same declarations. A [plan] compares them
//! with what the lists of the service return, and consists of ordinary requests.

mod carry_out;
mod forms;
mod kinds;
mod objects;
mod plan;
mod schema;
mod yaml;

pub use schema::schema;

use std::io::{self, Write};

use clap::Args;
use serde_json::{Value, json};

use super::call::{Call, CallError};
use super::client::Client;
use super::connection::Connection;
use super::output::Output;
use crate::api::operations::OperationId;
use forms::{Forms, short};
use kinds::{Kind, OWNED, POLICY};
use objects::{Object, Tenant, in_file, in_service};
use plan::{Plan, templates_of};

const EXIT_CODES: &str = "Exit codes: 0 done, 1 differences (`diff`), or the service refused (`apply`, `export`), 2 the command line or the file \
    is wrong, and nothing was changed, 3 the service could not be reached or failed. After 1 and 3 the same `apply` does what is left";

/// Settings of `budget-authority apply`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct ApplyArgs {
    #[command(flatten)]
    compared: DiffArgs,
    /// Print the plan and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Settings of `budget-authority diff`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct DiffArgs {
    #[command(flatten)]
    connection: Connection,
    /// The file, YAML or JSON; - for standard input
    #[arg(short, long, value_name = "FILE")]
    file: String,
    /// Freeze budgets, disable policies, pause webhooks and revoke keys that a list in the file leaves out
    #[arg(long)]
    prune: bool,
    /// Print JSON, an object per line for each step
    #[arg(long)]
    json: bool,
}

/// Settings of `budget-authority export`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct ExportArgs {
    #[command(flatten)]
    connection: Connection,
    /// Only this tenant
    #[arg(long, value_name = "ID")]
    tenant: Option<String>,
    /// Print JSON in place of YAML
    #[arg(long)]
    json: bool,
}

/// Makes the service as the file says.
///
/// # Errors
/// [`CallError`], which [`CallError::exit`] turns into the exit code.
pub async fn apply(args: ApplyArgs) -> Result<(), CallError> {
    let mut output = Output::of_stdout(args.compared.json);
    let (client, plan) = args.compared.plan().await?;
    if args.dry_run || !output.is_json {
        print(&plan, &mut output)?;
    }
    match args.dry_run {
        true => Ok(()),
        false => carry_out::carry_out(plan.steps, &client, &mut output).await,
    }
}

/// Prints what differs between the file and the service.
///
/// # Errors
/// [`CallError::Incomplete`] if anything differs; [`CallError`].
pub async fn diff(args: DiffArgs) -> Result<(), CallError> {
    let mut output = Output::of_stdout(args.json);
    let plan = match args.plan().await {
        // 1 is for differences.
        Err(error @ CallError::Refused(_)) => return Err(CallError::Usage(error.to_string())),
        planned => planned?.1,
    };
    print(&plan, &mut output)?;
    match plan.steps.is_empty() {
        true => Ok(()),
        false => Err(CallError::Incomplete("the service differs from the file")),
    }
}

fn print(plan: &Plan, output: &mut Output<impl Write>) -> Result<(), CallError> {
    plan.steps.iter().try_for_each(|step| match output.is_json {
        true => output.json(&step.row),
        false => output.line(&step.line),
    })
}

impl DiffArgs {
    /// The plan; what stays as it is goes to standard error.
    async fn plan(self) -> Result<(Client, Plan), CallError> {
        let name = self.file.as_str();
        let wrong = |problems: Vec<String>| {
            let lines = problems.iter().map(|problem| format!("{name}: {problem}"));
            CallError::Usage(lines.collect::<Vec<_>>().join("\n"))
        };
        let text = match name {
            "-" => io::read_to_string(io::stdin()),
            _ => std::fs::read_to_string(name),
        };
        let text = text.map_err(|error| wrong(vec![error.to_string()]))?;
        let file = yaml::read(&text).map_err(|error| wrong(vec![error]))?;
        let forms = Forms::new();
        let tenants = in_file(&file, &forms).map_err(wrong)?;
        let client = self.connection.client()?;
        let mut plan = Plan::default();
        for wanted in &tenants {
            let present = in_service(&wanted.tenant.name, &client, &forms).await?;
            plan.add(wanted, present.as_ref(), self.prune, &forms);
        }
        if !plan.problems.is_empty() {
            return Err(wrong(plan.problems));
        }
        plan.steps.sort_by_key(|step| step.order);
        plan.notes.iter().for_each(|note| eprintln!("{note}"));
        Ok((client, plan))
    }
}

/// Writes what the service has as such a file.
///
/// # Errors
/// [`CallError`], which [`CallError::exit`] turns into the exit code.
pub async fn export(args: ExportArgs) -> Result<(), CallError> {
    let (client, forms) = (args.connection.client()?, Forms::new());
    let mut ids = Vec::from_iter(args.tenant);
    if ids.is_empty() {
        let rows = client
            .rows(&Call::of(OperationId::ListTenants), None)
            .await?;
        let open = rows.iter().filter(|row| row["status"] != "CLOSED");
        let open = open.filter_map(|row| row["tenant_id"].as_str());
        ids.extend(open.map(str::to_owned));
        ids.sort();
    }
    let mut tenants = Vec::new();
    for id in ids {
        let found = in_service(&id, &client, &forms).await?;
        let found = found.ok_or_else(|| CallError::Usage(format!("there is no tenant `{id}`")));
        tenants.push(exported_tenant(&mut found?, &forms));
    }
    let mut output = Output::of_stdout(args.json);
    if args.json {
        return output.json(&json!({"tenants": tenants}));
    }
    let none = if tenants.is_empty() { " []" } else { "" };
    let mut text = format!("tenants:{none}\n");
    yaml::write(&json!(tenants), "  ", &mut text);
    output.line(text.trim_end())
}

fn exported_tenant(tenant: &mut Tenant, forms: &Forms) -> Value {
    let mut all = exported(&tenant.tenant, forms);
    tenant.owned.sort_by(|a, b| a.name.cmp(&b.name));
    let of = |kind: &'static Kind| {
        let owned = tenant
            .owned
            .iter()
            .filter(|object| object.kind.word == kind.word);
        owned.map(|object| (object, exported(object, forms)))
    };
    let policies: Vec<_> = of(&POLICY).map(|(_, policy)| policy).collect();
    let policies: Vec<_> = policies.iter().collect();
    for kind in OWNED {
        let mut list: Vec<_> = of(kind).collect();
        // A template makes its budgets again.
        list.retain(|(object, exported)| {
            let mut template = exported.clone();
            template
                .as_object_mut()
                .map(|members| members.remove("scope"));
            !templates_of(object, &policies).contains(&&template)
        });
        if !list.is_empty() {
            all[kind.list] = list.into_iter().map(|(_, exported)| exported).collect();
        }
    }
    all
}

fn exported(object: &Object, forms: &Forms) -> Value {
    let (kind, mut members) = (object.kind, object.members.clone());
    // What each period gets; what the present one has includes what it took along.
    if members["period"].is_object() {
        members["allocated"] = members["period"]["allocated"].take();
    }
    let mut short = short(&members, forms.schema(kind), &Value::Null);
    if object.status == kind.off {
        short["status"] = object.status.as_str().into();
    }
    short
}
