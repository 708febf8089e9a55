//! Bulk actions over HTTP, and many ledgers to do them on.

use budget_authority::domain::ids::TenantId;
use budget_authority::store::Store;
use serde_json::{Value, json};

use super::response::Response;

pub const TENANTS: &str = "/v1/admin/tenants/bulk-action";
pub const WEBHOOKS: &str = "/v1/admin/webhooks/bulk-action";
pub const BUDGETS: &str = "/v1/admin/budgets/bulk-action";

/// A bulk action on the ledgers of a tenant, in TOKENS.
pub fn fund(tenant: &str, action: &str, amount: i64, key: &str) -> Value {
    json!({
        "filter": {"tenant_id": tenant}, "action": action, "idempotency_key": key,
        "amount": {"unit": "TOKENS", "amount": amount},
    })
}

/// Writes ledgers of a tenant as `create_budget.lua` leaves them: `ledger-<n>` at the agent `a<n>`, 1,000 allocated.
pub async fn ledgers(store: &Store, tenant: &str, count: usize) {
    let tenant = TenantId::parse(tenant).expect("a tenant");
    let (keys, partition, name) = (store.keys(), tenant.partition(), tenant.as_str());
    let mut commands = Vec::new();
    for n in 0..count {
        let scope = format!("tenant:{name}/agent:a{n}");
        let key = keys.budget(partition, name, "TOKENS", &scope);
        let fields = format!(
            "status ACTIVE remaining 1000 reserved 0 spent 0 allocated 1000 debt 0 overdraft_limit 0 is_over_limit 0 \
             base_spent 0 base_debt 0 tenant {name} scope {scope} unit TOKENS ledger_id ledger-{n} created_at_ms 1000"
        );
        let mut write = redis::cmd("HSET");
        write.arg(&key).arg(fields.split(' ').collect::<Vec<_>>());
        commands.push((key, write));
        let index = keys.budgets(partition, name);
        let mut enter = redis::cmd("ZADD");
        enter.arg(&index).arg(0).arg(format!("{scope} 1 TOKENS"));
        commands.push((index, enter));
    }
    let counts = keys.counts(partition);
    let mut count_them = redis::cmd("HINCRBY");
    count_them
        .arg(&counts)
        .arg("budget TOKENS ACTIVE")
        .arg(count);
    commands.push((counts, count_them));
    store.send_all(&commands).await.expect("written");
}

/// The ids of the rows in one of the lists of a response.
pub fn ids(response: &Response, list: &str) -> Vec<String> {
    let rows = response.body[list].as_array().expect("a list").iter();
    rows.map(|row| row["id"].as_str().expect("an id").to_owned())
        .collect()
}

/// Error code of a row, or the reason why it was skipped.
pub fn words(response: &Response, list: &str) -> Vec<(String, String)> {
    let rows = response.body[list].as_array().expect("a list").iter();
    let word = |row: &Value| {
        let word = row.get("error_code").or(row.get("reason"));
        let word = word.and_then(Value::as_str).expect("a word").to_owned();
        (row["id"].as_str().expect("an id").to_owned(), word)
    };
    rows.map(word).collect()
}
