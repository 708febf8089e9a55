//! The lists of the service, page by page as their rows are needed.

use std::collections::VecDeque;
use std::mem::take;

use serde_json::Value;

use super::call::{Call, CallError};
use super::client::Client;

/// Rows per page; few lists return more.
pub(super) const PAGE: usize = 100;

/// A list that is being read.
pub(super) struct Pages<'a> {
    client: &'a Client,
    list: Call,
    size: usize,
    /// How many rows are still asked for.
    left: usize,
    rows: VecDeque<Value>,
    /// The last response without its rows.
    pub page: Value,
}

impl Client {
    /// Reads a list page by page, up to `limit` rows. `list` is the request without page size and cursor.
    ///
    /// # Errors
    /// As for [`Client::send`].
    pub async fn rows(&self, list: &Call, limit: Option<usize>) -> Result<Vec<Value>, CallError> {
        self.pages(list, limit, PAGE).rest().await
    }

    /// The same, in pages of `size` rows, which are read when they are needed.
    pub fn pages(&self, list: &Call, limit: Option<usize>, size: usize) -> Pages<'_> {
        Pages {
            client: self,
            list: list.clone(),
            size,
            left: limit.unwrap_or(usize::MAX),
            rows: VecDeque::new(),
            page: Value::Null,
        }
    }
}

impl Pages<'_> {
    /// The next row, which stays the next one.
    ///
    /// # Errors
    /// As for [`Client::send`].
    pub async fn peek(&mut self) -> Result<Option<&Value>, CallError> {
        while self.rows.is_empty() && self.left > 0 {
            let limit = self.left.min(self.size);
            let page = self.list.clone().with("limit", Some(limit));
            self.page = self.client.send(&page).await?;
            let mut members = self.page.as_object_mut().into_iter().flatten();
            let found = members.find_map(|(_, value)| value.as_array_mut());
            self.rows = take(found.ok_or_else(|| self.client.unreadable())?).into();
            self.left = self.left.saturating_sub(self.rows.len());
            let next = self.page["next_cursor"].as_str();
            match next.filter(|_| self.page["has_more"] == true) {
                Some(next) => self.list = self.list.clone().with("cursor", Some(next)),
                None => self.left = 0,
            }
        }
        Ok(self.rows.front())
    }

    /// Takes the next row.
    ///
    /// # Errors
    /// As for [`Client::send`].
    pub async fn next(&mut self) -> Result<Option<Value>, CallError> {
        self.peek().await?;
        Ok(self.rows.pop_front())
    }

    /// All rows that are left.
    ///
    /// # Errors
    /// As for [`Client::send`].
    pub async fn rest(&mut self) -> Result<Vec<Value>, CallError> {
        let mut rows = Vec::new();
        while self.peek().await?.is_some() {
            rows.extend(self.rows.drain(..));
        }
        Ok(rows)
    }
}
