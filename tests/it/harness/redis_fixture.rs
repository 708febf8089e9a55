//! A key prefix of its own on a Redis, and direct access to what is stored there.

use std::collections::BTreeMap;
use std::time::Duration;

use budget_authority::domain::ids::{Partition, TenantId};
use budget_authority::store::dispatcher::lease::Taken;
use budget_authority::store::{Lane, Lease, Store};
use redis::{Cmd, FromRedisValue, Value};

use super::{eventually, within};

/// The fields of a stored record, or the facts of an entry of a log.
pub type Fields = BTreeMap<String, String>;

/// See the module documentation. The other fixtures contain one.
#[derive(Clone)]
pub struct RedisFixture {
    pub store: Store,
}

impl RedisFixture {
    /// On the shared Redis, under a new prefix.
    pub fn new() -> Self {
        Self::on(super::store(&super::redis::shared().url()))
    }

    /// On a store of the test's choice.
    pub fn on(store: Store) -> Self {
        Self { store }
    }

    /// Runs one command, which names its key first, and reads its reply.
    pub async fn run<T: FromRedisValue>(&self, words: &[impl AsRef<str>]) -> T {
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        let reply = self
            .store
            .send(Lane::Background, (words[1], &command(&words).1))
            .await;
        let reply = reply.unwrap_or_else(|error| panic!("{words:?}: {error}"));
        redis::from_redis_value(reply).unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// Runs commands made by [`command`], a few hundred at a time: a batch has the deadline of one call.
    pub async fn run_all(&self, commands: &[(String, Cmd)]) -> Vec<Value> {
        let mut replies = Vec::new();
        for batch in commands.chunks(500) {
            let batch = self.store.send_all(batch).await;
            replies.extend(batch.expect("the commands are right"));
        }
        replies
    }

    /// Reads hashes, in the order of their keys.
    pub async fn hashes(&self, keys: &[String]) -> Vec<Fields> {
        let commands: Vec<_> = keys.iter().map(|key| command(&["HGETALL", key])).collect();
        let replies = self.run_all(&commands).await.into_iter();
        let read = |reply| redis::from_redis_value(reply).expect("a hash");
        replies.map(read).collect()
    }

    /// Reads the entries of a stream, oldest first.
    pub async fn entries(&self, stream: &str) -> Vec<Fields> {
        let entries = self.entries_from(stream, "-").await;
        entries.into_iter().map(|(_, facts)| facts).collect()
    }

    /// The same from an id on, as XRANGE takes it, with their ids.
    pub async fn entries_from(&self, stream: &str, from: &str) -> Vec<(String, Fields)> {
        let entries: Vec<(String, Vec<String>)> = self.run(&["XRANGE", stream, from, "+"]).await;
        entries
            .into_iter()
            .map(|(id, fields)| (id, facts_of(fields)))
            .collect()
    }

    /// Redis's time in milliseconds.
    pub async fn now_ms(&self) -> i64 {
        now_ms(&self.store).await
    }

    /// The lease of a partition, taken for `owner`.
    pub async fn lease_of(&self, partition: Partition, owner: &str, duration: Duration) -> Lease {
        let (alive, partitions) = ([owner.to_owned()], [partition]);
        let taken = self
            .store
            .take_leases(owner, duration, &alive, duration, &partitions);
        match taken.await.expect("an answer")[..] {
            [Some(Taken::Mine(lease))] => lease,
            ref other => panic!("no lease for {owner}: {other:?}"),
        }
    }

    /// Sets fields of a record.
    pub async fn set(&self, key: &str, fields: &[(&str, &str)]) {
        let mut words = vec!["HSET", key];
        words.extend(fields.iter().flat_map(|(name, value)| [*name, *value]));
        self.run::<()>(&words).await;
    }

    /// Sets fields of the record of a tenant's API key.
    pub async fn set_key_of(&self, tenant: &str, id: &str, fields: &[&str]) {
        let partition = TenantId::parse(tenant).expect("a tenant id").partition();
        let record = self.store.keys().api_key(partition, id);
        self.run::<()>(&[&["HSET", &record], fields].concat()).await;
    }

    /// Waits until Redis's clock shows a later millisecond, so that what follows is not of the same time.
    pub async fn next_ms(&self) {
        self.until_ms(self.now_ms().await + 1).await;
    }

    /// Waits until Redis's clock shows this time.
    pub async fn until_ms(&self, at_ms: i64) {
        eventually("Redis's clock shows that time", || async {
            let now_ms = self.now_ms().await;
            (now_ms >= at_ms).then_some(()).ok_or(now_ms - at_ms)
        })
        .await;
    }

    /// Waits, if less of the current minute of Redis's clock is left, until the next has begun: what is counted per minute
    /// then stays in one.
    pub async fn with_left_in_minute(&self, least: Duration) {
        let left = Duration::from_millis((60_000 - self.now_ms().await % 60_000) as u64);
        if left < least {
            let begins_ms = self.now_ms().await + left.as_millis() as i64;
            within(left + least, "a minute begins", || async {
                self.now_ms().await >= begins_ms
            })
            .await;
        }
    }

    /// Everything under the prefix, byte for byte, except the counts that replicas flush for detectors at any time.
    pub async fn everything(&self) -> BTreeMap<String, Vec<u8>> {
        let mut dumps = BTreeMap::new();
        for key in self.keys_like("*").await {
            if key.contains(":traffic") || key.contains(":burn") {
                continue;
            }
            // A key may have lapsed since.
            if let Some(dump) = self.run(&["DUMP", &key]).await {
                dumps.insert(key, dump);
            }
        }
        dumps
    }

    /// The keys of a pattern below the prefix, sorted.
    pub async fn keys_like(&self, pattern: &str) -> Vec<String> {
        let pattern = format!("{}:{pattern}", self.store.keys().prefix());
        let mut found = Vec::new();
        let scan = self
            .store
            .scan(&pattern, None, |key| found.push(key.to_owned()));
        scan.await.expect("Redis answers");
        found.sort();
        found.dedup();
        found
    }

    /// One hash over all keys of the prefix: name, value and when it lapses. The Redis must be a single server.
    pub async fn digest(&self) -> String {
        let mut command = redis::cmd("EVAL");
        command.arg(DIGEST).arg(0).arg(self.store.keys().prefix());
        let reply = self
            .store
            .send(Lane::Background, ("any", &command))
            .await
            .expect("a digest");
        redis::from_redis_value(reply).expect("a text")
    }
}

const DIGEST: &str = "
local names = redis.call('KEYS', ARGV[1] .. ':*')
table.sort(names)
local parts = {}
for i, name in ipairs(names) do
  -- What a replica counts for detectors comes later, whether it was refused or not.
  local is_counted = name:find('}:traffic', 1, true)
  parts[i] = is_counted and '' or redis.sha1hex(name .. redis.call('DUMP', name) .. redis.call('PEXPIRETIME', name))
end
return redis.sha1hex(table.concat(parts))
";

/// The facts of an entry of a stream, given as names and values.
pub fn facts_of(fields: Vec<String>) -> Fields {
    let (mut facts, mut fields) = (Fields::new(), fields.into_iter());
    while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
        let known = facts.insert(name.clone(), value);
        assert!(known.is_none(), "{name} stands twice: {facts:?}");
    }
    facts
}

/// A command given as words, with the key that it names first.
pub fn command(words: &[&str]) -> (String, Cmd) {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    (words[1].to_owned(), command)
}

/// Redis's time in milliseconds.
pub async fn now_ms(store: &Store) -> i64 {
    store.secret().await.expect("it runs");
    store.node_times().await.expect("a time")[0].1
}
