//! `keys locate`: the keys of a tenant's records, for an operator with `redis-cli`.

pub mod sizes;

use clap::Args;

use crate::domain::ids::TenantId;
use crate::store::{Keys, keys};
use crate::tools::tenant_id::tenant_id;

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
}
