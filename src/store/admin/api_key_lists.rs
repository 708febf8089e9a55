//! The indexes of API keys by creation.

use redis::Value;

use crate::domain::ids::TenantId;
use crate::store::records::{command, read_reply};
use crate::store::{Store, StoreError};

impl Store {
    /// Up to `rows` entries of all API keys, or of one tenant's, from a time on; that time is included. An entry is the time of
    /// creation, in milliseconds, and the id, which may have no record; equal times are ordered by id, in the same direction. With
    /// them comes the clock of the index's node, in milliseconds.
    pub async fn api_key_entries(
        &self,
        tenant: Option<&TenantId>,
        from_ms: Option<i64>,
        descending: bool,
        rows: usize,
    ) -> Result<(i64, Vec<(i64, String)>), StoreError> {
        let key = match tenant {
            Some(tenant) => self.keys().api_keys(tenant.partition(), tenant.as_str()),
            None => self.keys().api_key_directory(),
        };
        let (name, first, last) = match descending {
            false => ("ZRANGEBYSCORE", "-inf", "+inf"),
            true => ("ZREVRANGEBYSCORE", "+inf", "-inf"),
        };
        let first = from_ms.map_or_else(|| first.to_owned(), |from_ms| from_ms.to_string());
        let time = (key.clone(), redis::cmd("TIME"));
        let walk = (first, last, "WITHSCORES", "LIMIT", 0, rows);
        let commands = [time, command(name, key, walk)];
        let replies = self.send_all(&commands).await?;
        let [time, found] = replies.try_into().unwrap_or([Value::Nil, Value::Nil]);
        let time: Vec<i64> = read_reply(time)?;
        let found: Vec<(String, f64)> = read_reply(found)?;
        let now_ms = time.first().unwrap_or(&0) * 1000 + time.get(1).unwrap_or(&0) / 1000;
        let entry = |(key_id, score): (String, f64)| (score as i64, key_id);
        Ok((now_ms, found.into_iter().map(entry).collect()))
    }
}
