//! Limits of what one tenant may store and do, so that it cannot hurt others.

use clap::Args;
use clap::builder::TypedValueParser as _;

use crate::domain::audit::FAILURES_PER_MINUTE_DEFAULT;
use crate::domain::refusal::CountLimits;

/// The heading of all limits in the help.
pub const LIMITS_HEADING: &str = "Limits";

/// Limits of what one tenant may store and do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
#[command(next_help_heading = LIMITS_HEADING)]
pub struct LimitsConfig {
    /// Largest `metadata` of a request, in bytes of JSON text
    #[arg(long, env = "BUDGET_METADATA_LIMIT_BYTES", value_name = "BYTES", default_value = "16384",
          value_parser = clap::value_parser!(u32).range(64..=1_048_576).map(|bytes| bytes as usize))]
    pub metadata_limit_bytes: usize,
    /// Largest `metrics` of a commit or usage event, in bytes of JSON text
    #[arg(long, env = "BUDGET_METRICS_LIMIT_BYTES", value_name = "BYTES", default_value = "16384",
          value_parser = clap::value_parser!(u32).range(1_024..=1_048_576).map(|bytes| bytes as usize))]
    pub metrics_limit_bytes: usize,
    /// Largest `caps` of a policy, in bytes of JSON text
    #[arg(long, env = "BUDGET_CAPS_LIMIT_BYTES", value_name = "BYTES", default_value = "4096",
          value_parser = clap::value_parser!(u32).range(64..=65_536).map(|bytes| bytes as usize))]
    pub caps_limit_bytes: usize,
    /// Most entries of the `scope_filter` of an API key
    #[arg(long, env = "BUDGET_SCOPE_FILTER_LIMIT", value_name = "N", default_value = "64",
          value_parser = clap::value_parser!(u32).range(1..=1_000).map(|entries| entries as usize))]
    pub scope_filter_limit: usize,
    /// Extensions of a reservation, whatever its tenant or policy allows; each stays in the record, in about 200 bytes
    #[arg(long, env = "BUDGET_EXTENSIONS_PER_RESERVATION", value_name = "N", default_value = "1000",
          value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub extensions_per_reservation: u32,
    /// Bytes that the requests of a tenant store in a minute of metadata, metrics, action and subject, after which further
    /// reservations and usage events with more than 512 of them wait for the next one, all of them where commits or extensions
    /// went beyond it; 0 for no limit
    #[arg(long, env = "BUDGET_STORED_BYTES_PER_MINUTE", value_name = "BYTES", default_value = "67108864",
          value_parser = clap::value_parser!(u64).range(0..=1 << 40))]
    pub stored_bytes_per_minute: u64,
    /// Policies that a tenant may have
    #[arg(long, env = "BUDGET_POLICIES_PER_TENANT", value_name = "N", default_value_t = CountLimits::DEFAULT.policies,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    policies_per_tenant: u32,
    /// Webhook subscriptions that a tenant, or the operator, may have
    #[arg(long, env = "BUDGET_WEBHOOKS_PER_OWNER", value_name = "N", default_value_t = CountLimits::DEFAULT.webhooks,
          value_parser = clap::value_parser!(u32).range(1..=5_000))]
    webhooks_per_owner: u32,
    /// Different utilization thresholds that the active subscriptions of a tenant, or of the operator, may watch
    #[arg(long, env = "BUDGET_THRESHOLDS_PER_OWNER", value_name = "N", default_value_t = CountLimits::DEFAULT.thresholds,
          value_parser = clap::value_parser!(u32).range(1..=512))]
    thresholds_per_owner: u32,
    /// Most test deliveries to the webhooks of one tenant, in a minute
    #[arg(long, env = "BUDGET_WEBHOOK_TEST_LIMIT_PER_MINUTE", value_name = "N", default_value = "30",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub webhook_test_limit_per_minute: u32,
    /// Audit entries of refused requests of the admin plane that a tenant's keys, or unknown callers, cause in a minute; one
    /// more entry counts the others
    #[arg(long, env = "BUDGET_AUDIT_FAILURES_PER_MINUTE", value_name = "N",
          default_value_t = FAILURES_PER_MINUTE_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub audit_failures_per_minute: u32,
    /// Lists in an order without an index that a tenant's keys, or the operators, may request at the same time from a replica
    #[arg(long, env = "BUDGET_GATHERING_LISTS_PER_TENANT", value_name = "N", default_value = "2",
          value_parser = clap::value_parser!(u16).range(1..=1_000).map(usize::from))]
    pub gathering_lists_per_tenant: usize,
    /// Requests of the admin plane that the keys of a tenant may make to a replica per second; a change counts once more
    /// for each 4 KiB of its response, which is stored. 0 for no limit
    #[arg(long, env = "BUDGET_REQUESTS_PER_SECOND", value_name = "N", default_value = "200",
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub requests_per_second: u32,
    /// How many of them at once, after a pause
    #[arg(long, env = "BUDGET_REQUEST_BURST", value_name = "N", default_value = "1000",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub request_burst: u32,
    /// Requests of the runtime plane, lists among them, that the keys of a tenant may make to a replica per second; 0, the
    /// default, for no limit: what an agent has spent must be charged
    #[arg(long, env = "BUDGET_RUNTIME_REQUESTS_PER_SECOND", value_name = "N", default_value = "0",
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub runtime_requests_per_second: u32,
    /// How many of them at once, after a pause
    #[arg(long, env = "BUDGET_RUNTIME_REQUEST_BURST", value_name = "N", default_value = "1000",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub runtime_request_burst: u32,
    /// Most names of webhook receivers that a replica resolves at the same time; further ones wait
    #[arg(long, env = "BUDGET_WEBHOOK_LOOKUP_LIMIT", value_name = "N", default_value = "32",
          value_parser = clap::value_parser!(u16).range(1..=400).map(usize::from))]
    pub webhook_lookup_limit: usize,
}

impl LimitsConfig {
    /// How many records an owner may have.
    pub fn counts(&self) -> CountLimits {
        CountLimits {
            policies: self.policies_per_tenant,
            webhooks: self.webhooks_per_owner,
            thresholds: self.thresholds_per_owner,
        }
    }
}
