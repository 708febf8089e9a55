//! The arguments of a command, and the request that they make.

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::amounts::{NONE, ReadArgument, amount_in, limit, unit_of};
use super::commands::{Action, CommandRow};
use super::inputs::{Input, Kind, Place, UNIT, day, future, inputs, past, text};
use super::{funding, usage};
use crate::api::operations::OperationId;
use crate::domain::money;
use crate::tools::call::{Call, CallError};

/// How many words the help of an argument lists.
const LISTED_WORDS: usize = 8;
const LIST: &str = "; repeated or comma-separated";
/// Settings of a row of the index.
const CLEAR: &str = "clear:";
const FUNDING: &str = "funding:";

impl CommandRow {
    /// The inputs of the operation, as this command uses them.
    fn inputs(&self) -> Vec<Input> {
        let mut inputs = inputs(self.operation);
        let mut hidden = Vec::from_iter((self.action != Action::Call).then_some("cursor"));
        for argument in self.arguments.split_whitespace() {
            let (name, change) = match argument.find(['=', ':', '!']) {
                Some(0) => {
                    hidden.push(&argument[1..]);
                    continue;
                }
                Some(end) => argument.split_at(end),
                None => (argument, ""),
            };
            let Some(input) = inputs.iter_mut().find(|input| input.name == name) else {
                continue;
            };
            match change.split_at_checked(1) {
                Some(("=", value)) => input.fixed = Some(value.to_owned()),
                Some((":", value)) => input.default = Some(value.to_owned()),
                Some(_) => input.required = true,
                None => input.positional = true,
            }
        }
        let hides = |input: &Input| {
            let is_flag = matches!(input.place, Place::Query | Place::Body);
            hidden.contains(&input.name.as_str()) || hidden.contains(&"*") && is_flag
        };
        inputs.retain(|input| input.fixed.is_some() || !hides(input));
        inputs
    }

    /// Whether the operation changes members one by one, so that they can be removed.
    fn removes(&self) -> bool {
        ["PATCH", "PUT"].contains(&self.operation.operation().method.as_str())
    }

    /// The value of `clear:` or `funding:`.
    fn setting(&self, name: &str) -> Option<&'static str> {
        let mut arguments = self.arguments.split_whitespace();
        arguments.find_map(|argument| argument.strip_prefix(name))
    }

    /// Adds the arguments.
    pub fn with_arguments(&self, mut command: Command) -> Command {
        for input in self.inputs().iter().filter(|input| input.fixed.is_none()) {
            let argument = self.argument(input);
            command = command.arg(match (self.action, input.name.as_str()) {
                (_, "idempotency-key") => argument
                    .help("Makes the command safe to repeat")
                    .value_name("KEY"),
                (action, "limit") if action.limits_rows() => {
                    argument.help("Maximum number of rows")
                }
                _ => argument,
            });
        }
        let option =
            |name: &'static str, about: &'static str| Arg::new(name).long(name).help(about);
        let switch = |name, about| option(name, about).action(ArgAction::SetTrue);
        if self.setting(FUNDING).is_some() {
            command = funding::with_arguments(command);
        }
        if let Some(members) = self.setting(CLEAR) {
            let members: Vec<_> = members.split(',').collect();
            let clear = option("clear", "Removes these; repeated or comma-separated");
            let clear = clear.value_name("SETTING").value_delimiter(',');
            command = command.arg(clear.action(ArgAction::Append).value_parser(members));
        }
        match self.action {
            Action::Close => command.arg(switch("yes", "Confirm, because it cannot be undone")),
            Action::Bulk => {
                let yes = switch("yes", "Change whatever matches, up to 500");
                command.arg(yes.conflicts_with("expect"))
            }
            Action::Usage => usage::with_arguments(command),
            Action::Replay => command.arg(switch("no-wait", "Do not wait for the outcome")),
            Action::Tail => {
                let lines = option("lines", "How many of the latest events").default_value("20");
                let lines = lines.value_name("N").value_parser(value_parser!(usize));
                let follow = switch("follow", "Show new events as they come, until interrupted");
                command.args([lines.short('n'), follow.short('f')])
            }
            Action::Call => {
                let about = "Body of the request: JSON, @ and the name of its file, or - for standard input; flags set members of it";
                let body = option("body", about).value_name("JSON|@FILE|-");
                let body = body.value_parser(body_of as ReadArgument);
                let key = option(
                    "api-key",
                    "API key of a tenant, in place of the admin key; that of the environment only where no admin key is taken",
                );
                let key = key.env("BUDGET_API_KEY").hide_env_values(true);
                command.args([body, key.value_name("KEY")])
            }
            Action::List if self.operation == OperationId::ListAuditLogs => {
                command.arg(switch("refused", "Only refused requests"))
            }
            _ => command,
        }
    }

    /// The argument of an input.
    fn argument(&self, input: &Input) -> Arg {
        use OperationId::{ReplayEvents, ReplayTenantEvents};
        let replays = matches!(self.operation, ReplayEvents | ReplayTenantEvents);
        let is_past = input.place != Place::Body || replays;
        let name = input.name.replace('-', "_").to_uppercase();
        let (value_name, about, parser): (&str, &str, ReadArgument) = match input.kind {
            Kind::Text | Kind::Switch => (&name, "", |text| Ok(text.into())),
            Kind::Secret => ("FILE", "; read from this file", |text| Ok(text.into())),
            Kind::Integer => ("N", "", json_of::<i64>),
            Kind::Amount => ("AMOUNT", "", money::read),
            Kind::Number => ("N", "", json_of::<f64>),
            Kind::Time if is_past => ("TIME", ": a time, or 15m, 2h, 7d ago", past),
            Kind::Time => ("TIME", ": a time, or 15m, 2h, 7d from now", future),
            Kind::Day => ("DAY", ": a day such as 2026-01-31, or 24h, 30d ago", day),
            Kind::Limit => ("EVERY[@ZONE]=AMOUNT", "", limit),
            Kind::Map => ("NAME=VALUE", "; repeated", pair),
            Kind::Object if input.is_list => ("JSON", "; repeated", object),
            Kind::Object => ("JSON", "", json_of::<Map<String, Value>>),
        };
        let about = if input.is_list { LIST } else { about };
        let mut help = input.about.clone() + about;
        if let [first @ .., last] = input.words.as_slice()
            && (1..LISTED_WORDS).contains(&first.len())
        {
            help += &format!(": {} or {last}", first.join(", "));
        }
        if self.removes() && (input.is_list || input.name == "overage-policy") {
            help += "; `none` removes it";
        }
        let mut argument = Arg::new(input.name.clone()).help(help);
        argument = match input.kind {
            Kind::Switch => argument.action(ArgAction::SetTrue),
            _ => argument
                .value_name(value_name.to_owned())
                .value_parser(parser),
        };
        if input.kind == Kind::Map || input.is_list && input.kind == Kind::Object {
            argument = argument.action(ArgAction::Append);
        } else if input.is_list {
            argument = argument.action(ArgAction::Append).value_delimiter(',');
        }
        let member = input.member().replace('_', "-");
        if input.positional && !input.words.is_empty() {
            let words = input.words.iter().map(|word| word.to_lowercase());
            let words = PossibleValuesParser::new(words);
            argument = argument.value_parser(words.map(|word| json!(word.to_uppercase())));
        } else if !input.positional {
            argument = argument.long(input.name.clone());
            // `--url` is the service's.
            if member != input.name && member != "url" {
                argument = argument.alias(member);
            }
        }
        match &input.default {
            Some(unit) if input.name == UNIT => {
                argument.env("BUDGET_UNIT").default_value(unit.clone())
            }
            Some(value) if !value.starts_with('$') => argument.default_value(value.clone()),
            None if input.required => {
                // What holds a member can be given as a whole.
                let mut wholes: Vec<_> = input.path.iter().rev().skip(1).cloned().collect();
                if input.place == Place::Body && self.action == Action::Call {
                    wholes.push("body".to_owned());
                }
                let is_alone = wholes.is_empty();
                argument
                    .required(is_alone)
                    .required_unless_present_any(wholes)
            }
            _ => argument,
        }
    }

    /// The request.
    ///
    /// # Errors
    /// [`CallError::Usage`] for what is wrong with the arguments together.
    pub fn call(&self, matches: &ArgMatches) -> Result<Call, CallError> {
        let usage = |text: String| Err(CallError::Usage(text));
        let mut call = Call::of(self.operation);
        if self.action == Action::Call {
            call.body = matches.get_one::<Value>("body").cloned();
        }
        if self.operation.operation().declaration.request.is_some() {
            call.body.get_or_insert_with(|| json!({}));
        }
        let unit = self.unit(matches)?;
        for input in self.inputs() {
            let value = self.value(&input, matches, unit.as_ref())?;
            match input.place {
                Place::Header => set_key(&input, value, &mut call),
                Place::Path => call.id = value.as_ref().map(text),
                Place::Query if self.action.limits_rows() && input.name == "limit" => {}
                Place::Query => call = call.with(input.member(), value.as_ref().map(text)),
                Place::Body => call.body.iter_mut().zip(value).for_each(|(body, value)| {
                    let names = || input.path.iter();
                    let has_value = names().try_fold(&*body, |place, name| place.get(name));
                    // A default does not replace what `--body` has.
                    let is_given =
                        || matches.value_source(&input.name) == Some(ValueSource::CommandLine);
                    if has_value.is_none() || is_given() {
                        *names().fold(body, |place, name| &mut place[name]) = value;
                    }
                }),
                Place::Unit => {}
            }
        }
        if let Some(member) = self.setting(FUNDING) {
            funding::set(matches, member, unit.as_ref(), &mut call)?;
        }
        if self.setting(CLEAR).is_some() {
            for member in matches.get_many::<String>("clear").into_iter().flatten() {
                call.body.get_or_insert_default()[member] = Value::Null;
            }
        }
        let is_empty = |value: &Value| value.as_object().is_none_or(Map::is_empty);
        match (self.action, &call.body) {
            (Action::Change, Some(body)) if is_empty(body) => usage(format!(
                "nothing to change; `admin {} --help` lists what can be",
                self.words
            )),
            (Action::Bulk, Some(body)) if is_empty(&body["filter"]) => {
                usage("a bulk action needs a filter, such as --status or --search".to_owned())
            }
            (Action::Bulk, Some(body))
                if body["expected_count"].is_null() && !matches.get_flag("yes") =>
            {
                usage("give --expect N, or --yes to change whatever matches".to_owned())
            }
            (Action::Close, _) if !matches.get_flag("yes") => usage(format!(
                "closing {} releases its holds, closes its budgets and revokes its keys, for good; confirm with --yes",
                call.id.unwrap_or_default()
            )),
            (Action::List, _) if self.operation == OperationId::ListAuditLogs => {
                let refused = matches.get_flag("refused").then_some(400);
                Ok(call.with("status_min", refused))
            }
            _ => Ok(call),
        }
    }

    /// The unit of the amounts: the one that they name, or else that of its argument.
    fn unit(&self, matches: &ArgMatches) -> Result<Option<Value>, CallError> {
        let inputs = self.inputs();
        let amounts = inputs.iter().filter(|input| {
            input.fixed.is_none() && matches!(input.kind, Kind::Amount | Kind::Limit)
        });
        let amounts = amounts.filter_map(|input| matches.get_many::<Value>(&input.name));
        let funds = self.setting(FUNDING).and_then(|_| funding::amount(matches));
        let amounts = amounts.flatten().chain(funds.map(|(_, amount)| amount));
        let has_unit = inputs.iter().any(|input| input.name == UNIT);
        let unit = has_unit.then(|| matches.get_one(UNIT)).flatten();
        let is_given = has_unit && matches.value_source(UNIT) == Some(ValueSource::CommandLine);
        let named = unit_of(amounts, unit.filter(|_| is_given))?;
        Ok(named.or(unit).cloned())
    }

    /// The value of an input, if it has one.
    fn value(
        &self,
        input: &Input,
        matches: &ArgMatches,
        unit: Option<&Value>,
    ) -> Result<Option<Value>, CallError> {
        if let Some(value) = &input.fixed {
            return derived(value, matches).map(Some);
        }
        if input.name == UNIT && unit.is_some() {
            return Ok(unit.cloned());
        }
        if input.kind == Kind::Switch {
            return Ok(matches.get_flag(&input.name).then_some(Value::Bool(true)));
        }
        let given = matches.get_many::<Value>(&input.name);
        let given: Vec<_> = given.into_iter().flatten().collect();
        let Some(&first) = given.first() else {
            let default = input.default.as_deref();
            return default.map(|default| derived(default, matches)).transpose();
        };
        let is_removal = |value: &Value| self.removes() && value == NONE;
        let given = given.into_iter();
        Ok(Some(match input.kind {
            Kind::Limit => {
                let with_unit = |limit: &Value| {
                    let mut limit = limit.clone();
                    limit["amount"] = amount_in(unit, &limit["amount"]);
                    limit
                };
                let limits = given.filter(|limit| !is_removal(limit));
                limits.map(with_unit).collect()
            }
            _ if input.is_list && input.place == Place::Body => {
                given.filter(|value| !is_removal(value)).cloned().collect()
            }
            _ if input.is_list => given.map(text).collect::<Vec<_>>().join(",").into(),
            Kind::Map => given
                .map(|pair| (text(&pair[0]), pair[1].clone()))
                .collect(),
            Kind::Secret => secret(&text(first))?,
            Kind::Amount => amount_in(unit, first),
            _ if is_removal(first) && !input.words.is_empty() => Value::Null,
            _ => first.clone(),
        }))
    }
}

/// A value of the index: `$` and a name are the value of an argument.
fn derived(value: &str, matches: &ArgMatches) -> Result<Value, CallError> {
    let Some(name) = value.strip_prefix('$') else {
        return Ok(value.into());
    };
    let value = matches.get_one::<Value>(name).map(text).unwrap_or_default();
    if name != "scope" {
        return Ok(value.into());
    }
    let first = value.split('/').next().unwrap_or_default();
    match first.strip_prefix("tenant:") {
        Some(tenant) if !tenant.is_empty() => Ok(tenant.into()),
        _ => Err(CallError::Usage(format!(
            "the scope `{value}` must begin with tenant:ID"
        ))),
    }
}

/// Sets the idempotency key: the one that is given, or a random one where a second request would have a second effect.
fn set_key(input: &Input, given: Option<Value>, call: &mut Call) {
    let member = input.member();
    let in_body = call.body.as_mut().filter(|_| member == "idempotency_key");
    let is_needed = in_body.is_some() || call.operation == OperationId::CreateBudget;
    let sent = in_body.as_ref().and_then(|body| body.get(member)).cloned();
    let random = || is_needed.then(|| json!(Uuid::new_v4().to_string()));
    let key = given.or(sent).or_else(random);
    call.key = key.as_ref().map(text);
    if let Some(body) = in_body {
        body[member] = json!(key);
    }
}

fn json_of<T: DeserializeOwned + Into<Value>>(text: &str) -> Result<Value, String> {
    let read: Result<T, _> = serde_json::from_str(text);
    read.map(Into::into).map_err(|error| error.to_string())
}

/// Reads a body: JSON, the file that is named after `@`, or standard input.
fn body_of(text: &str) -> Result<Value, String> {
    let read = match (text, text.strip_prefix('@')) {
        ("-", _) => std::io::read_to_string(std::io::stdin()),
        (_, Some(path)) => std::fs::read_to_string(path),
        (_, None) => Ok(text.to_owned()),
    };
    json_of::<Map<String, Value>>(&read.map_err(|error| error.to_string())?)
}

fn object(text: &str) -> Result<Value, String> {
    match text {
        NONE => Ok(NONE.into()),
        _ => json_of::<Map<String, Value>>(text),
    }
}

fn pair(text: &str) -> Result<Value, String> {
    let (name, value) = text.split_once('=').ok_or("not NAME=VALUE")?;
    Ok(json!([name, value]))
}

/// The content of the file that `--secret-file` names.
fn secret(path: &str) -> Result<Value, CallError> {
    let content = std::fs::read_to_string(path)
        .map_err(|error| CallError::Usage(format!("--secret-file {path}: {error}")))?;
    match content.trim_end() {
        "" => Err(CallError::Usage(format!("--secret-file {path} is empty"))),
        secret => Ok(secret.into()),
    }
}
