//! What a command does: it sends requests and prints the responses.

use std::io::Write;

use serde::Serialize;
use serde_json::{Map, Value};

use super::bulk::BulkCall;
use super::key_list::{self, KeyQuery};
use super::output::Output;
use super::overview;
use super::replay::Replay;
use super::style::Tone;
use super::tail::Tail;
use super::tree::Tree;
use crate::api::operations::OperationId;
use crate::tools::call::{Call, given};
use crate::tools::client::Client;
use crate::tools::client_error::CallError;

/// A list operation and its table.
#[derive(Debug)]
pub(super) struct List {
    pub operation: OperationId,
    /// The member of the response that holds the rows.
    pub member: &'static str,
    /// See [`Output::table`].
    pub columns: &'static str,
    /// What to print when there are no rows: what there is none of, perhaps a semicolon and what to do.
    pub nothing: &'static str,
}

impl List {
    fn nothing(&self, filters: &Map<String, Value>) -> String {
        match self.nothing.split(';').next() {
            Some(none) if !filters.is_empty() => format!("{none} match these filters"),
            _ => self.nothing.to_owned(),
        }
    }
}

/// What a command does.
#[derive(Debug)]
pub(super) enum Action {
    /// Sends one request and prints the body of the response.
    Show(Call),
    /// Prints the rows of a list, filtered by these parameters, at most so many.
    List(&'static List, Map<String, Value>, Option<usize>),
    /// As `List`, of the object with this id.
    ListOf(String, &'static List, Map<String, Value>, Option<usize>),
    /// Makes an API key restricted to these scopes, and prints the body of the response with them.
    MakeKey(Vec<String>, Call),
    /// Prints API keys, with who made them.
    Keys(KeyQuery),
    /// Prints the budgets of a list as a tree.
    Tree(&'static List, Map<String, Value>),
    /// Prints the latest events and follows them.
    Tail(Tail),
    /// Sends a test event, prints the outcome, and fails if the receiver did.
    TestWebhook(Call),
    /// Replays events to a webhook.
    Replay(Replay),
    /// Makes one change of many rows.
    Bulk(BulkCall),
    /// Prints the overview.
    Overview,
}

impl Action {
    /// Prints the rows of a list. The given members of `filters` are its parameters.
    pub fn list(list: &'static List, filters: &impl Serialize, limit: Option<usize>) -> Self {
        Self::List(list, given(filters), limit)
    }

    /// Performs the action.
    pub async fn run(
        self,
        client: &Client,
        output: &mut Output<impl Write>,
    ) -> Result<(), CallError> {
        let rows_of = async |call: Call, list: &List, filters: &Map<String, Value>, limit| {
            let page = || call.clone().query(filters);
            client.rows(page, list.member, limit).await
        };
        let rows = async |list: &List, filters: &Map<String, Value>, limit| {
            rows_of(Call::of(list.operation), list, filters, limit).await
        };
        match self {
            Self::Show(call) => output.object(&client.send(&call).await?),
            Self::List(list, filters, limit) => {
                let rows = rows(list, &filters, limit).await?;
                output.table(list.columns, &rows, &list.nothing(&filters))
            }
            Self::ListOf(id, list, filters, limit) => {
                let rows = rows_of(Call::to(list.operation, id), list, &filters, limit).await?;
                output.table(list.columns, &rows, &list.nothing(&filters))
            }
            Self::TestWebhook(call) => {
                let outcome = client.send(&call).await?;
                output.object(&outcome)?;
                match outcome["success"] == true {
                    true => Ok(()),
                    false => Err(CallError::TestFailed),
                }
            }
            Self::Replay(replay) => replay.run(client, output).await,
            Self::MakeKey(scopes, call) => {
                let mut made = client.send(&call).await?;
                if !scopes.is_empty() {
                    made["scope_filter"] = scopes.into();
                }
                output.object(&made)
            }
            Self::Keys(query) => key_list::print(&query, client, output).await,
            Self::Tree(list, filters) => {
                let rows = rows(list, &filters, None).await?;
                if output.is_json() || rows.is_empty() {
                    return output.table(list.columns, &rows, &list.nothing(&filters));
                }
                let (lines, style) = (Tree::of(&rows).lines(), output.style());
                lines.iter().try_for_each(|line| {
                    let is_over = line.contains("  OVER LIMIT");
                    output.line(&style.paint(line, is_over.then_some(Tone::Bad)))
                })
            }
            Self::Bulk(bulk) => bulk.run(client, output).await,
            Self::Tail(tail) => tail.run(client, output).await,
            Self::Overview => {
                let call = Call::of(OperationId::GetAdminOverview);
                overview::print(&client.send(&call).await?, output)
            }
        }
    }
}
