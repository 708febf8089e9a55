//! How long data is kept.

use std::time::Duration;

use clap::Args;

use super::error::ConfigError;

const DAY: Duration = Duration::from_secs(86_400);

/// Flags of [`RetentionConfig`].
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Retention")]
pub struct RetentionArgs {
    /// Days that a reservation is kept after its end, with its idempotency entries, and a usage event after its charge,
    /// but at least 7. About 1 KB each
    #[arg(long, env = "BUDGET_RESERVATION_RETENTION_DAYS", value_name = "DAYS", default_value = "30",
          value_parser = clap::value_parser!(u32).range(1..=3_650))]
    reservation_retention_days: u32,
    /// Days that events are kept
    #[arg(long, env = "BUDGET_EVENT_RETENTION_DAYS", value_name = "DAYS", default_value = "90",
          value_parser = clap::value_parser!(u32).range(1..=3_650))]
    event_retention_days: u32,
    /// Days that audit entries are kept; those of unknown callers at most 30
    #[arg(long, env = "BUDGET_AUDIT_RETENTION_DAYS", value_name = "DAYS", default_value = "400",
          value_parser = clap::value_parser!(u32).range(1..=3_650))]
    audit_retention_days: u32,
    /// Days that the outbox keeps its pointers to events
    #[arg(long, env = "BUDGET_OUTBOX_RETENTION_DAYS", value_name = "DAYS", default_value = "7",
          value_parser = clap::value_parser!(u32).range(1..=365))]
    outbox_retention_days: u32,
}

/// How long data is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionConfig {
    /// `BUDGET_RESERVATION_RETENTION_DAYS`, default 30, from the end of the reservation or the usage event; usage
    /// events are kept at least a week.
    pub reservations: Duration,
    /// `BUDGET_EVENT_RETENTION_DAYS`, default 90.
    pub events: Duration,
    /// `BUDGET_AUDIT_RETENTION_DAYS`, default 400: more than a year, for yearly audits.
    pub audit: Duration,
    /// `BUDGET_OUTBOX_RETENTION_DAYS`, default 7.
    pub outbox: Duration,
}

impl RetentionArgs {
    pub(super) fn into_config(self) -> Result<RetentionConfig, ConfigError> {
        // Outbox entries point into the event log.
        if self.event_retention_days < self.outbox_retention_days {
            return Err(ConfigError::Contradiction {
                first: "BUDGET_EVENT_RETENTION_DAYS",
                second: "BUDGET_OUTBOX_RETENTION_DAYS",
                reason: "an event must be kept at least as long as its outbox entry",
            });
        }
        Ok(RetentionConfig {
            reservations: DAY * self.reservation_retention_days,
            events: DAY * self.event_retention_days,
            audit: DAY * self.audit_retention_days,
            outbox: DAY * self.outbox_retention_days,
        })
    }
}
