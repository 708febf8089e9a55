//! Logs over the days of a test: a day may begin while it runs, and what it writes is then in the logs of two.

use budget_authority::store::{Day, Store};

use super::redis_fixture::{Fields, RedisFixture, facts_of};

/// An entry of a log: its id, then names and values.
pub type Entry = (String, Vec<String>);

/// Yesterday, today and tomorrow: a test that lasts less than a day sees no other.
pub fn days_around(store: &Store) -> [Day; 3] {
    let today = store.today();
    [-1, 0, 1].map(|days| today.plus(days))
}

impl RedisFixture {
    /// The entries of a log, days one after the other.
    pub async fn log_entries(&self, key: impl Fn(Day) -> String) -> Vec<Entry> {
        let mut entries = Vec::new();
        for day in days_around(&self.store) {
            let of_day: Vec<Entry> = self.run(&["XRANGE", &key(day), "-", "+"]).await;
            entries.extend(of_day);
        }
        entries
    }

    /// The facts of the same.
    pub async fn log_facts(&self, key: impl Fn(Day) -> String) -> Vec<Fields> {
        let entries = self.log_entries(key).await.into_iter();
        entries.map(|(_, fields)| facts_of(fields)).collect()
    }
}
