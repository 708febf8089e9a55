//! One word for everything that a Redis holds.

use budget_authority::store::Store;

const SCRIPT: &str = "
local names = redis.call('KEYS', ARGV[1] .. ':*')
table.sort(names)
local parts = {}
for i, name in ipairs(names) do
  parts[i] = redis.sha1hex(name .. redis.call('DUMP', name) .. redis.call('PEXPIRETIME', name))
end
return redis.sha1hex(table.concat(parts))
";

/// Over every key of the store's prefix: its name, its value and when it ends. The Redis must be a single server.
pub async fn digest(store: &Store) -> String {
    let mut command = redis::cmd("EVAL");
    command.arg(SCRIPT).arg(0).arg(store.keys().prefix());
    let reply = store.query("any", &command).await.expect("a digest");
    redis::from_redis_value(reply).expect("a text")
}
