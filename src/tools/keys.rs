//! `budget-authority keys`: random keys for the settings, and the keys of a tenant in Redis.

use std::cmp::Reverse;

use clap::{Args, ValueEnum};
use redis::FromRedisValue;
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;

use super::table::Table;
use crate::domain::admin_key::AdminKeys;
use crate::domain::ids::TenantId;
use crate::domain::seal::SealingKeys;
use crate::evidence::SigningKey;
use crate::store::{Keys, Stock, Store, StoreError, keys};

/// Arguments of `keys generate`.
#[derive(Debug, Clone, Args)]
pub struct GenerateArgs {
    /// What the key is for
    #[arg(long, default_value = "admin")]
    kind: KeyKind,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum KeyKind {
    /// Opens the admin plane: for BUDGET_ADMIN_KEYS
    Admin,
    /// Encrypts the secrets of webhooks: for BUDGET_SECRET_KEYS
    Secret,
    /// Signs evidence: a seed for BUDGET_EVIDENCE_SEEDS of dispatchers, and the public key for BUDGET_EVIDENCE_PUBLIC_KEY of all
    Evidence,
}

/// A random key.
pub fn generate(args: &GenerateArgs) -> String {
    let key: SecretString = match args.kind {
        KeyKind::Admin => AdminKeys::generate(),
        KeyKind::Secret => SealingKeys::generate().into(),
        KeyKind::Evidence => {
            let (seed, key) = SigningKey::generate();
            let public = key.public().hex();
            let seed = seed.expose_secret();
            format!("BUDGET_EVIDENCE_SEEDS={seed}\nBUDGET_EVIDENCE_PUBLIC_KEY={public}").into()
        }
    };
    key.expose_secret().to_owned()
}

/// Reads a tenant id.
///
/// # Errors
/// The rule that it breaks.
pub(super) fn tenant_id(text: &str) -> Result<TenantId, String> {
    TenantId::parse(text).ok_or_else(|| "a tenant id has 3 to 64 of a-z, 0-9 and -".to_owned())
}

/// Settings of `budget-authority keys locate`.
#[derive(Debug, Clone, Args)]
pub struct LocateArgs {
    /// The tenant's id
    #[arg(long, value_parser = tenant_id)]
    tenant: TenantId,
    /// Prefix of every key
    #[arg(long, env = "BUDGET_KEY_PREFIX", value_name = "PREFIX", default_value = "ba", value_parser = Keys::new)]
    key_prefix: Keys,
}

/// The partition, its cluster slot, and the name and pattern of every key in it, with the tenant's id; computed without Redis.
pub fn locate(args: &LocateArgs) -> String {
    let (prefix, tenant) = (args.key_prefix.prefix(), args.tenant.as_str());
    let partition = args.tenant.partition();
    let slot = Keys::slot(partition);
    let mut text = format!("partition     {partition}\ncluster slot  {slot}\n\n");
    for key in keys::partition::ALL
        .iter()
        .filter(|key| key.kind != "prefix")
    {
        let pattern = key.pattern(&[]).replace("<tenant>", tenant);
        let pattern = pattern.replace("<day>", "<yyyymmdd>");
        text += &format!("{:<21} {prefix}:{{{partition}}}:{pattern}\n", key.name);
    }
    text
}

/// Settings of `budget-authority keys sizes`.
#[derive(Debug, Clone, Args)]
pub struct SizesArgs {
    /// The tenant's id, to see the keys that name it; without it, what each tenant takes, which includes its reservations, usage
    /// events, subscriptions and deliveries
    #[arg(long, value_parser = tenant_id)]
    pub tenant: Option<TenantId>,
    /// One JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

/// The keys that name a tenant, and its API keys. Those of reservations, usage events, subscriptions and deliveries do not
/// name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sizes {
    /// The tenant's partition.
    pub partition: String,
    /// The partition's cluster slot.
    pub slot: u16,
    /// In the order of their names.
    pub keys: Vec<Size>,
}

/// One key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Size {
    /// The whole key.
    pub key: String,
    /// `hash`, `zset`, `stream` or `string`.
    pub kind: String,
    /// Fields, members, entries or bytes.
    pub entries: i64,
    /// Memory, as Redis estimates it.
    pub memory_bytes: i64,
}

/// Reads the keys of a tenant.
pub async fn sizes(store: &Store, tenant: &TenantId) -> Result<Sizes, StoreError> {
    let (partition, name) = (tenant.partition(), tenant.as_str());
    let prefix = format!("{}:{{{partition}}}:", store.keys().prefix());
    let mut keys = Vec::new();
    let visit = |key: &str| {
        let rest = key.strip_prefix(&prefix);
        if rest.is_some_and(|rest| is_of(rest, name)) {
            keys.push(key.to_owned());
        }
    };
    let pattern = format!("{prefix}*");
    store.scan(&pattern, Some(partition), visit).await?;
    let index = store.keys().api_keys(partition, name);
    for key_id in store.members_of(&index).await? {
        keys.push(store.keys().api_key(partition, &key_id));
    }
    keys.sort_unstable();
    keys.dedup();
    let kinds: Vec<String> = ask(store, &keys, |_| &["TYPE"]).await?;
    let count = |at: usize| -> &'static [&'static str] {
        match kinds[at].as_str() {
            "hash" => &["HLEN"],
            "zset" => &["ZCARD"],
            "stream" => &["XLEN"],
            "string" => &["STRLEN"],
            // Deleted meanwhile, or of another type.
            _ => &["EXISTS"],
        }
    };
    let counts: Vec<i64> = ask(store, &keys, count).await?;
    let memory: Vec<i64> = ask(store, &keys, |_| &["MEMORY", "USAGE"]).await?;
    let rows = keys.into_iter().zip(kinds).zip(counts).zip(memory);
    let size = |(((key, kind), entries), memory_bytes)| Size {
        key,
        kind,
        entries,
        memory_bytes,
    };
    Ok(Sizes {
        partition: partition.to_string(),
        slot: Keys::slot(partition),
        keys: rows.map(size).collect(),
    })
}

impl Sizes {
    /// One JSON object and a line break, or a table for people.
    pub fn text(&self, json: bool) -> String {
        if json {
            return serde_json::json!(self).to_string() + "\n";
        }
        let mut table = Table::new(2, ["KEY", "TYPE", "ENTRIES", "BYTES"]);
        for size in &self.keys {
            let (entries, bytes) = (size.entries.to_string(), size.memory_bytes.to_string());
            table.row([size.key.clone(), size.kind.clone(), entries, bytes]);
        }
        let (partition, slot) = (&self.partition, self.slot);
        format!("partition     {partition}\ncluster slot  {slot}\n\n{table}")
    }
}

/// What the data of all tenants takes, the most first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stocks {
    /// All of them.
    pub tenants: Vec<TenantStock>,
}

/// What the data of a tenant takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TenantStock {
    /// The tenant.
    pub tenant_id: String,
    /// In all, as Redis and a sample of the records show it.
    pub bytes: i64,
    /// By kind.
    pub kinds: Stock,
}

/// Measures the data of all tenants.
pub async fn stocks(store: &Store) -> Result<Stocks, StoreError> {
    let mut tenants = Vec::new();
    for id in store.members_of(&store.keys().directory()).await? {
        let Some(tenant) = TenantId::parse(&id) else {
            continue;
        };
        let kinds = store.stock_of(&tenant).await?;
        tenants.push(TenantStock {
            tenant_id: id,
            bytes: kinds.bytes(),
            kinds,
        });
    }
    tenants.sort_by_key(|of_tenant: &TenantStock| Reverse(of_tenant.bytes));
    Ok(Stocks { tenants })
}

impl Stocks {
    /// One JSON object and a line break, or a table for people: all kinds that a tenant has any data of.
    pub fn text(&self, json: bool) -> String {
        if json {
            return serde_json::json!(self).to_string() + "\n";
        }
        let headings = [("TENANT", None), ("BYTES", Some(12)), ("KINDS", None)];
        let mut table = Table::aligned(headings);
        for of_tenant in &self.tenants {
            let kinds = of_tenant.kinds.0.iter().filter(|(_, bytes)| **bytes > 0);
            let kinds: Vec<_> = kinds
                .map(|(kind, bytes)| format!("{kind} {bytes}"))
                .collect();
            let bytes = of_tenant.bytes.to_string();
            table.row([of_tenant.tenant_id.clone(), bytes, kinds.join(", ")]);
        }
        table.to_string()
    }
}

/// Whether a key, without its prefix, is `<kind>:<tenant>` or `<kind>:<tenant>:…`.
fn is_of(rest: &str, tenant: &str) -> bool {
    let name = rest
        .split_once(':')
        .and_then(|(_, rest)| rest.strip_prefix(tenant));
    name.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
}

/// Sends a command about each key, whose words follow from its place; a reply of another type counts as none.
pub(super) async fn ask<T: FromRedisValue + Default>(
    store: &Store,
    keys: &[String],
    words: impl Fn(usize) -> &'static [&'static str],
) -> Result<Vec<T>, StoreError> {
    let command = |(at, key): (usize, &String)| {
        let words = words(at);
        let mut command = redis::cmd(words[0]);
        command.arg(&words[1..]).arg(key);
        (key.clone(), command)
    };
    let commands: Vec<_> = keys.iter().enumerate().map(command).collect();
    let replies = store.send_all(&commands).await?.into_iter();
    let read = replies.map(|reply| redis::from_redis_value(reply).unwrap_or_default());
    Ok(read.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_of_a_tenant_carry_its_partition() {
        let args = LocateArgs {
            tenant: TenantId::parse("acme").expect("a tenant"),
            key_prefix: Keys::new("ba").expect("a prefix"),
        };
        let text = locate(&args);
        let partition = args.tenant.partition().to_string();
        assert!(
            text.starts_with(&format!("partition     {partition}\n")),
            "{text}"
        );
        let keys: Vec<_> = text.lines().filter(|line| line.contains("ba:")).collect();
        assert!(keys.len() > 14, "{text}");
        let tag = format!("ba:{{{partition}}}:");
        assert!(keys.iter().all(|line| line.contains(&tag)), "{text}");
        for key in [
            "tenant:acme",
            "events:acme:<yyyymmdd>",
            "budget:acme:<unit>:<scope>",
            "lease",
        ] {
            assert!(text.contains(&format!(" {tag}{key}\n")), "{text}");
        }
    }

    #[test]
    fn a_key_belongs_to_a_tenant_only_by_its_whole_id() {
        for (rest, belongs) in [
            ("tenant:acme", true),
            ("budget:acme:TOKENS:tenant:acme", true),
            ("rsvs:acme:20260101", true),
            ("tenant:acme-corp", false),
            ("budget:bolt:TOKENS:tenant:acme", false),
            ("due", false),
            ("rsv:r05f_acme", false),
        ] {
            assert_eq!(is_of(rest, "acme"), belongs, "{rest}");
        }
    }
}
