//! What the commands share: calls to the service, whose responses are printed.

use std::io::Write;

use serde::Serialize;
use serde_json::Value;

use super::client::{Call, Client, given};
use super::error::OperatorError;
use super::output::{Column, Output};

/// A list operation and its table.
pub(super) struct Listing {
    pub path: &'static [&'static str],
    /// The member of the response that holds the rows.
    pub member: &'static str,
    pub columns: &'static [Column],
    /// What to print when there are no rows.
    pub nothing: &'static str,
}

/// A service and where to print its responses.
pub(super) struct Console<W> {
    pub client: Client,
    pub output: Output<W>,
}

impl<W: Write> Console<W> {
    /// Sends one request and prints the body of the response.
    pub async fn show(&mut self, call: Call) -> Result<(), OperatorError> {
        let body = self.client.send(call).await?;
        self.output.object(&body)
    }

    /// Prints the rows of a list, at most `limit`. The given members of `filters` are its parameters.
    pub async fn list(
        &mut self,
        listing: &Listing,
        filters: &impl Serialize,
        limit: Option<usize>,
    ) -> Result<(), OperatorError> {
        let rows = self.rows(listing, filters, limit).await?;
        self.output.table(listing.columns, &rows, listing.nothing)
    }

    /// Reads the rows of a list, page by page.
    pub async fn rows(
        &self,
        listing: &Listing,
        filters: &impl Serialize,
        limit: Option<usize>,
    ) -> Result<Vec<Value>, OperatorError> {
        let filters = given(filters);
        let page = || Call::get(listing.path).query(&filters);
        self.client.rows(page, listing.member, limit).await
    }
}
