//! Settings of the gauges of budgets.

use std::time::Duration;

use clap::Args;
use clap::builder::TypedValueParser as _;

use super::values::setting;
use crate::domain::ids::TenantId;

/// Settings of the gauges of budgets.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Metrics")]
pub struct BudgetGaugeConfig {
    /// Tenants whose budgets have gauges, by their ids, comma-separated: four series for each budget, with tenant, scope and
    /// unit as labels. None by default
    #[arg(long = "metrics-tenants", env = "BUDGET_METRICS_TENANTS", value_name = "ID,…", default_value = "",
          hide_default_value = true, value_parser = setting(tenants))]
    pub tenants: TenantList,
    /// How often these budgets are read, in seconds
    #[arg(long = "metrics-tenants-interval-seconds", env = "BUDGET_METRICS_TENANTS_INTERVAL_SECONDS", value_name = "SECONDS",
          default_value = "60", value_parser = clap::value_parser!(u64).range(5..=3_600).map(Duration::from_secs))]
    pub interval: Duration,
    /// Most series of these gauges in one dispatcher; budgets beyond have none, and are counted
    #[arg(long = "metrics-tenants-series", env = "BUDGET_METRICS_TENANTS_SERIES", value_name = "N", default_value = "1000",
          value_parser = clap::value_parser!(u32).range(4..=100_000).map(|n| n as usize))]
    pub series_max: usize,
}

/// Ids of tenants, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantList(pub Vec<TenantId>);

impl Default for BudgetGaugeConfig {
    fn default() -> Self {
        Self {
            tenants: TenantList::default(),
            interval: Duration::from_secs(60),
            series_max: 1_000,
        }
    }
}

fn tenants(text: &str) -> Result<TenantList, String> {
    let mut list = Vec::new();
    for name in text.split(',').map(str::trim) {
        if name.is_empty() {
            continue;
        }
        let tenant = TenantId::parse(name);
        let tenant = tenant.ok_or_else(|| format!("`{name}` is no id of a tenant"))?;
        if !list.contains(&tenant) {
            list.push(tenant);
        }
    }
    Ok(TenantList(list))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_tenants_has_each_once() {
        let list = tenants(" acme, bolt,acme,,").expect("ids");
        let names: Vec<_> = list.0.iter().map(TenantId::as_str).collect();
        assert_eq!(names, ["acme", "bolt"]);
        assert_eq!(tenants("").expect("none"), TenantList::default());
        let refused = tenants("acme,a b").expect_err("no id");
        assert!(refused.contains("`a b`"), "{refused}");
    }
}
