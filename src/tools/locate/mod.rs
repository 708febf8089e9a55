//! `keys locate`: the keys of a tenant's records, for an operator with `redis-cli`.

pub mod sizes;

use clap::Args;

use crate::domain::ids::TenantId;
use crate::store::{Day, Keys};
use crate::tools::tenant_id::tenant_id;

/// Settings of `budget-authority keys locate`.
#[derive(Debug, Clone, Args)]
pub struct LocateArgs {
    /// The tenant's id
    #[arg(value_parser = tenant_id)]
    tenant: TenantId,
    /// Prefix of every key
    #[arg(long, env = "BUDGET_KEY_PREFIX", value_name = "PREFIX", default_value = "ba", value_parser = Keys::new)]
    key_prefix: Keys,
}

/// The partition, its cluster slot, and every key or pattern of the tenant; computed without Redis.
pub fn locate(args: &LocateArgs) -> String {
    let (keys, tenant) = (&args.key_prefix, args.tenant.as_str());
    let partition = args.tenant.partition();
    // Any day, because it is printed as a pattern.
    let day = Day::of_ms(0);
    let any_day = |key: String| key.replace(&day.to_string(), "<yyyymmdd>");
    let rows = [
        ("tenant", keys.tenant(partition, tenant)),
        ("API keys", keys.api_keys(partition, tenant)),
        ("one API key", keys.api_key(partition, "<key_id>")),
        ("policies", keys.policies(partition, tenant)),
        ("one policy", keys.policy(partition, "<policy_id>")),
        ("ledgers", keys.budgets(partition, tenant)),
        (
            "one ledger",
            keys.budget(partition, tenant, "<UNIT>", "<scope>"),
        ),
        (
            "reservations",
            any_day(keys.reservations(partition, tenant, day)),
        ),
        (
            "one reservation",
            keys.reservation(partition, "<reservation_id>"),
        ),
        ("due reservations", keys.due(partition, tenant)),
        ("events", any_day(keys.events(partition, tenant, day))),
        ("audit", any_day(keys.audit(partition, tenant, day))),
        ("outbox", keys.outbox(partition)),
        ("lease", keys.lease(partition)),
    ];
    let mut text = format!(
        "partition     {partition}\ncluster slot  {}\n\n",
        Keys::slot(partition)
    );
    for (what, key) in rows {
        text += &format!("{what:<17} {key}\n");
    }
    text
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
        assert_eq!(keys.len(), 14);
        let tag = format!("ba:{{{partition}}}:");
        assert!(keys.iter().all(|line| line.contains(&tag)), "{text}");
        assert!(text.contains("events:acme:<yyyymmdd>"), "{text}");
    }
}
