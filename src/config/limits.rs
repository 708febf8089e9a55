//! Limits of what one tenant may store and do, so that it cannot hurt others, and how long data is kept.

use std::time::Duration;

use clap::Args;

use super::values::days;
use crate::domain::refusal::CountLimits;
use crate::domain::usage::{USAGE_DAYS_DEFAULT, USAGE_MONTHS_DEFAULT};

/// The heading of all limits in the help.
pub const LIMITS_HEADING: &str = "Limits";

/// Limits of what one tenant may store and do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
#[command(next_help_heading = LIMITS_HEADING)]
pub struct LimitsConfig {
    /// Bytes of metadata, metrics, action and subject that a tenant's requests may store in a minute. Above it, reservations and
    /// usage events with more than 512 such bytes are refused until the next minute; all of them, if commits or extensions exceed
    /// it. 0 for no limit.
    ///
    /// Raise it when a tenant gets 429 for data that it needs, and Redis has the memory
    #[arg(long, env = "BUDGET_STORED_BYTES_PER_MINUTE", value_name = "BYTES", default_value = "67108864",
          value_parser = clap::value_parser!(u64).range(0..=1 << 40))]
    pub stored_bytes_per_minute: u64,
    /// Budgets that a tenant may have.
    ///
    /// Raise it when a tenant needs more, and Redis has the memory: about 0.5 KB each, and their metadata
    #[arg(long, env = "BUDGET_BUDGETS_PER_TENANT", value_name = "N", default_value_t = CountLimits::DEFAULT.budgets,
          value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub budgets_per_tenant: u32,
    /// Policies that a tenant may have.
    ///
    /// Raise it when a tenant needs more, and its first decision after a change of one may take longer
    #[arg(long, env = "BUDGET_POLICIES_PER_TENANT", value_name = "N", default_value_t = CountLimits::DEFAULT.policies,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    policies_per_tenant: u32,
    /// Webhook subscriptions that a tenant, or the operator, may have.
    ///
    /// Raise it when an owner needs more receivers; each event is matched against all subscriptions of its owner
    #[arg(long, env = "BUDGET_WEBHOOKS_PER_OWNER", value_name = "N", default_value_t = CountLimits::DEFAULT.webhooks,
          value_parser = clap::value_parser!(u32).range(1..=5_000))]
    webhooks_per_owner: u32,
    /// Requests of the admin plane that the keys of a tenant may make to a replica per second; a change counts once more
    /// for each 4 KiB of its response, which is stored. 0 for no limit.
    ///
    /// Raise it when scripts or dashboards of a tenant get 429 though Redis has time left
    #[arg(long, env = "BUDGET_REQUESTS_PER_SECOND", value_name = "N", default_value = "200",
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub requests_per_second: u32,
    /// Requests of the runtime plane, lists included, that the keys of a tenant may make to a replica per second; 0, the default,
    /// for no limit, since what an agent has spent must be charged.
    ///
    /// Set it when the agents of one tenant slow down those of others
    #[arg(long, env = "BUDGET_RUNTIME_REQUESTS_PER_SECOND", value_name = "N", default_value = "0",
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub runtime_requests_per_second: u32,
    /// Requests to the public paths of evidence from one client address, or one /48 network of IPv6, that a replica serves in a
    /// minute; 0 for no limit.
    ///
    /// Raise it when auditors fetch many envelopes through one address
    #[arg(long, env = "BUDGET_EVIDENCE_REQUESTS_PER_MINUTE", value_name = "N", default_value = "300",
          value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub evidence_requests_per_minute: u32,
}

/// Limits of what a caller may send, store or try that are the same in every deployment. Tests choose others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedLimits {
    /// Largest `metadata` of a request, in bytes of JSON text.
    pub metadata_bytes: usize,
    /// Largest `caps` of a policy, in bytes of JSON text.
    pub caps_bytes: usize,
    /// Time from the head of a request to the end of its body.
    pub body_timeout: Duration,
    /// Different utilization thresholds that the active subscriptions of an owner may watch.
    pub thresholds: u32,
    /// API keys that a tenant may have, revoked and expired ones included.
    pub api_keys: u32,
    /// Requests that a tenant may make at once after a pause, on each plane, where a rate is set.
    pub request_burst: u32,
    /// Wrong keys from one client address after which further ones are slowed down.
    pub key_failures: u32,
    /// Bytes of the request bodies that a process reads at the same time.
    pub body_memory_bytes: usize,
}

impl Default for FixedLimits {
    fn default() -> Self {
        Self {
            // Far more than labels take. A page of a list returns it for up to 200 records.
            metadata_bytes: 16 * 1024,
            // Every decision and reservation under the policy returns them.
            caps_bytes: 4 * 1024,
            // Enough for 1 MiB at 100 KB a second; a slow client holds a connection that long.
            body_timeout: Duration::from_secs(10),
            thresholds: CountLimits::DEFAULT.thresholds,
            api_keys: CountLimits::DEFAULT.api_keys,
            // A dashboard page, or a script that sets up a tenant, sends this many without a pause.
            request_burst: 1_000,
            // More than a person mistypes, and far too few to guess a key.
            key_failures: 10,
            body_memory_bytes: memory_limit() / 8,
        }
    }
}

/// The memory that the process may use, in bytes: the limit of its container, or 1 GiB where none can be read.
fn memory_limit() -> usize {
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let limit = limit.and_then(|text| text.trim().parse().ok());
    limit.unwrap_or(1 << 30)
}

impl LimitsConfig {
    /// How many records an owner may have.
    pub fn counts(&self, fixed: &FixedLimits) -> CountLimits {
        CountLimits {
            budgets: self.budgets_per_tenant,
            api_keys: fixed.api_keys,
            policies: self.policies_per_tenant,
            webhooks: self.webhooks_per_owner,
            thresholds: fixed.thresholds,
        }
    }
}

/// How long data is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
#[command(next_help_heading = "Retention")]
pub struct RetentionConfig {
    /// Days that a reservation is kept after its end, with its idempotency entries, and a usage event after its charge,
    /// but at least 7. About 1 KB each.
    ///
    /// Raise it when reservations are read, or requests repeated, later than this; lower it when Redis lacks memory
    #[arg(long = "reservation-retention-days", env = "BUDGET_RESERVATION_RETENTION_DAYS", value_name = "DAYS",
          default_value = "30", value_parser = days(1..=3_650))]
    pub reservations: Duration,
    /// Days that events are kept.
    ///
    /// Raise it when events are read, or replayed to a webhook, later than this
    #[arg(long = "event-retention-days", env = "BUDGET_EVENT_RETENTION_DAYS", value_name = "DAYS",
          default_value = "90", value_parser = days(1..=3_650))]
    pub events: Duration,
    /// Days that audit entries are kept; those of unknown callers at most 30.
    ///
    /// Raise it when auditors ask for a longer time
    #[arg(long = "audit-retention-days", env = "BUDGET_AUDIT_RETENTION_DAYS", value_name = "DAYS",
          default_value = "400", value_parser = days(1..=3_650))]
    pub audit: Duration,
    /// Days that usage is kept day by day; then it is merged into months.
    ///
    /// Raise it when reports by day go further back; a busy tenant takes up to 4 MiB a day
    #[arg(long = "usage-retention-days", env = "BUDGET_USAGE_RETENTION_DAYS", value_name = "DAYS",
          default_value_t = USAGE_DAYS_DEFAULT, value_parser = clap::value_parser!(u32).range(31..=400))]
    pub usage_days: u32,
    /// Months that usage is kept after the end of each.
    ///
    /// Raise it when reports go further back
    #[arg(long = "usage-retention-months", env = "BUDGET_USAGE_RETENTION_MONTHS", value_name = "MONTHS",
          default_value_t = USAGE_MONTHS_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=120))]
    pub usage_months: u32,
}

/// Longer than dispatchers are ever down: an event whose pointer is gone before it was queued for webhooks is not delivered.
const OUTBOX: Duration = Duration::from_secs(7 * 86_400);

impl RetentionConfig {
    /// How long the outbox keeps its pointers to events: never longer than the events.
    pub fn outbox(&self) -> Duration {
        OUTBOX.min(self.events)
    }
}
